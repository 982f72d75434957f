#include "averaging/averages.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "../rounding.hpp"
#include "../small_network.hpp"
#include "averaging.hpp"
#include "optimizers.hpp"
#include "unisono/parallel/counters.hpp"

namespace unisono::strategies {
namespace {

StrategySettings compressed(const parallel::CompressionSettings& compression, const OuterSettings& outer = {}) {
  AveragingSettings settings{.period = 3, .optimizer_state = StateAtAverage::keep};
  settings.outer = outer.is_on() || !compression.is_on() ? outer : OuterSettings{.kind = OuterKind::sgd};
  settings.compression = compression;
  return strategy_with({.kind = "averaging"}, settings);
}

std::vector<parallel::CompressionSettings> all_kinds() {
  return {{.kind = parallel::Compression::bf16},
          {.kind = parallel::Compression::eight_bit},
          {.kind = parallel::Compression::one_bit},
          {.kind = parallel::Compression::top_k, .density = 0.1}};
}

Training training_with(const StrategySettings& strategy, int ranks) {
  return {.model = small_network(false),
          .strategy = strategy,
          .optimizer = {.kind = "sgd", .learning_rate = 0.1},
          .ranks = ranks,
          .batch_size = 7,
          .epochs = 3};
}

}  // namespace

TEST_CASE("ranks agree after compressed averages, and keep what they have not sent", "[averaging][compression]") {
  const Examples images = small_images();
  for (const parallel::CompressionSettings& compression : all_kinds()) {
    for (const OuterKind outer : {OuterKind::sgd, OuterKind::nesterov}) {
      INFO("kind " << static_cast<int>(compression.kind) << ", outer " << static_cast<int>(outer));
      const auto outcomes = train(images, training_with(compressed(compression, {.kind = outer}), 3));
      CHECK(ranks_agree(outcomes));
      std::int64_t sent = 0, plain = 0;
      for (const Outcome& rank : outcomes) {
        CHECK(rank.vectors.back().vector.name == "residual");
        CHECK(std::ranges::any_of(rank.vectors.back().values.view(), [](float value) { return value != 0; }));
        sent += rank.counters.get<parallel::CompressionCounters>().sent_bytes;
        plain += rank.counters.get<parallel::CompressionCounters>().plain_bytes;
      }
      CHECK(sent > 0);
      CHECK(sent < plain);
    }
  }
}

TEST_CASE("what an average has not moved is in the ranks' residuals", "[averaging][compression]") {
  const Examples images = small_images();
  Training plain = training_with(compressed({}), 3);
  plain.stop_after = 3;  // at the first average
  const auto mean = train(images, plain);
  for (const parallel::CompressionSettings& compression : all_kinds()) {
    INFO("kind " << static_cast<int>(compression.kind));
    Training training = plain;
    training.strategy = compressed(compression);
    const auto outcomes = train(images, training);
    // Σ residual = (θ₀ − mean) − Δ = θ − mean. Numbers below 1 in magnitude, a dozen operations on each rank.
    double most = 0, largest = 0;
    for (std::size_t i = 0; i < mean[0].parameters.size(); ++i) {
      double unsent = 0;
      for (const Outcome& rank : outcomes) unsent += static_cast<double>(rank.vectors.back().values.view()[i]);
      const double moved = static_cast<double>(outcomes[0].parameters[i]) - static_cast<double>(mean[0].parameters[i]);
      most = std::max(most, std::abs(moved - unsent));
      largest = std::max(largest, std::abs(unsent));
    }
    CHECK(most <= 3 * 12 * kUnitRoundoff);
    CHECK(largest > 1e-6);
  }
}

TEST_CASE("compressed averages of all values are the plain ones to rounding", "[averaging][compression]") {
  const Examples images = small_images();
  const auto plain = train(images, training_with(compressed({}), 3));
  const auto all = train(images, training_with(compressed({.kind = parallel::Compression::top_k, .density = 1}), 3));
  const double moved = largest_difference(plain[0].trajectory.front(), plain[0].parameters);
  CHECK(largest_difference(all[0].parameters, plain[0].parameters) <= 1e-4 * moved);
  const auto some = train(images, training_with(compressed({.kind = parallel::Compression::top_k, .density = 0.1}), 3));
  CHECK(largest_difference(some[0].parameters, plain[0].parameters) > 1e-3 * moved);
  const parallel::CompressionSettings none{.kind = parallel::Compression::top_k, .density = 0.1, .exact = {"*"}};
  const auto exact = train(images, training_with(compressed(none), 3));
  CHECK(std::ranges::equal(exact[0].parameters, plain[0].parameters));
}

TEST_CASE("on one rank compressed averages are the serial run, bit for bit", "[averaging][compression]") {
  const Examples images = small_images();
  const auto serial = train(images, training_with(compressed({}), 1));
  for (const parallel::CompressionSettings& compression : all_kinds()) {
    CHECK(std::ranges::equal(train(images, training_with(compressed(compression), 1))[0].parameters,
                             serial[0].parameters));
  }
}

TEST_CASE("runs of compressed averages that are stopped and resumed go on bit for bit", "[averaging][compression]") {
  const Examples images = small_images();
  for (const parallel::CompressionSettings& compression : all_kinds()) {
    INFO("kind " << static_cast<int>(compression.kind));
    Training training = training_with(compressed(compression, {.kind = OuterKind::nesterov}), 3);
    const auto whole = train(images, training);
    training.stop_after = 6;
    const auto stopped = train(images, training);
    training.stop_after = 1'000'000;
    training.resumed = &stopped;
    const auto resumed = train(images, training);
    CHECK(std::ranges::equal(resumed[0].parameters, whole[0].parameters));
    CHECK(std::ranges::equal(resumed[2].vectors.back().values.view(), whole[2].vectors.back().values.view()));
  }
}

}  // namespace unisono::strategies
