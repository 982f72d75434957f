#include "unisono/parallel/compressed_sum.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "../small_network.hpp"
#include "optimizers.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/parallel/counters.hpp"

namespace unisono::strategies {
namespace {

StrategySettings compressed(const parallel::CompressionSettings& settings) {
  return strategy_with({.kind = "allreduce"}, settings);
}

std::vector<parallel::CompressionSettings> all_kinds() {
  return {{.kind = parallel::Compression::bf16},
          {.kind = parallel::Compression::eight_bit},
          {.kind = parallel::Compression::one_bit},
          {.kind = parallel::Compression::threshold, .threshold = 0.01, .residual_limit = 20},
          {.kind = parallel::Compression::threshold, .threshold_density = 0.1},
          {.kind = parallel::Compression::top_k, .density = 0.1},
          {.kind = parallel::Compression::top_k, .density = 0.05, .momentum = 0.9, .ramp_steps = 3, .warmup_steps = 1},
          {.kind = parallel::Compression::top_k, .density = 0.1, .clip_norm = 0.5, .exact = {"dense2"}},
          {.kind = parallel::Compression::power_sgd, .rank = 1}};
}

std::string compression_name(const parallel::CompressionSettings& settings) {
  return "kind " + std::to_string(static_cast<int>(settings.kind)) + ", momentum " + std::to_string(settings.momentum) +
         ", threshold " + std::to_string(settings.threshold);
}

/// Dropout is left out where runs on different numbers of ranks are compared by their losses.
Training compressed_training(const parallel::CompressionSettings& settings, int ranks) {
  return {.model = small_network(true),
          .strategy = compressed(settings),
          .optimizer = {.kind = "sgd", .learning_rate = 0.1},
          .ranks = ranks,
          .batch_size = 7,
          .epochs = 3,
          .bucket_bytes = 1024};
}

bool same_outcome_bits(const std::vector<Outcome>& a, const std::vector<Outcome>& b) {
  if (!std::ranges::equal(a[0].parameters, b[0].parameters)) return false;
  return std::ranges::equal(a[0].statistics, b[0].statistics);
}

}  // namespace

TEST_CASE("ranks agree with every kind of compression, and keep what they have not sent", "[compressed_sum]") {
  const Examples images = small_images();
  for (const parallel::CompressionSettings& settings : all_kinds()) {
    for (const int ranks : {2, 3, 4}) {
      INFO(compression_name(settings) << ", " << ranks << " ranks");
      const auto outcomes = train(images, compressed_training(settings, ranks));
      CHECK(ranks_agree(outcomes));
      std::int64_t sent = 0, plain = 0;
      for (const Outcome& rank : outcomes) {
        CHECK(rank.vectors[0].vector.name == "residual");
        const View residual = rank.vectors[0].values.view();
        CHECK(std::ranges::any_of(residual, [](float value) { return value != 0; }));
        CHECK(rank.counters.get<parallel::CompressionCounters>().sent_bytes > 0);
        sent += rank.counters.get<parallel::CompressionCounters>().sent_bytes;
        plain += rank.counters.get<parallel::CompressionCounters>().plain_bytes;
      }
      if (settings.warmup_steps == 0 && settings.exact.empty()) CHECK(sent < plain);
    }
  }
}

TEST_CASE("compressed training learns about what plain training learns", "[compressed_sum]") {
  const Examples images = small_images(64);
  Training plain = compressed_training({}, 3);
  plain.batch_size = 16;
  plain.epochs = 30;
  const double before = losses_over_ranks(train(images, plain)).front();
  const double after = losses_over_ranks(train(images, plain)).back();
  REQUIRE(after < 0.8 * before);
  for (const parallel::CompressionSettings& settings : all_kinds()) {
    INFO(compression_name(settings));
    Training training = plain;
    training.strategy = compressed(settings);
    CHECK(losses_over_ranks(train(images, training)).back() < 0.9 * before);
  }
}

TEST_CASE("all values are allreduce, bit for bit", "[compressed_sum]") {
  const Examples images = small_images();
  for (const int ranks : {1, 2, 3, 4}) {
    INFO(ranks << " ranks");
    const auto plain = train(images, compressed_training({}, ranks));
    CHECK(same_outcome_bits(
        train(images, compressed_training({.kind = parallel::Compression::top_k, .density = 1}, ranks)), plain));
  }
}

TEST_CASE("a warm-up is allreduce, bit for bit, and so is one rank", "[compressed_sum]") {
  const Examples images = small_images();
  for (parallel::CompressionSettings settings : all_kinds()) {
    if (settings.momentum > 0 || settings.clip_norm > 0) continue;
    INFO(compression_name(settings));
    CHECK(
        same_outcome_bits(train(images, compressed_training(settings, 1)), train(images, compressed_training({}, 1))));
    settings.warmup_steps = 100;
    const auto outcomes = train(images, compressed_training(settings, 3));
    CHECK(same_outcome_bits(outcomes, train(images, compressed_training({}, 3))));
    CHECK(outcomes[0].counters.get<parallel::CompressionCounters>().sent_bytes ==
          outcomes[0].counters.get<parallel::CompressionCounters>().plain_bytes);
  }
}

TEST_CASE("a run goes on where it stopped, bit for bit", "[compressed_sum]") {
  const Examples images = small_images();
  for (const parallel::CompressionSettings& settings : all_kinds()) {
    INFO(compression_name(settings));
    Training training = compressed_training(settings, 3);
    const auto whole = train(images, training);
    training.stop_after = 5;
    const auto stopped = train(images, training);
    training.stop_after = 1'000'000;
    training.resumed = &stopped;
    CHECK(same_outcome_bits(train(images, training), whole));
  }
}

TEST_CASE("on one rank, momentum correction is the optimizer's momentum and clipping is the optimizer's",
          "[compressed_sum]") {
  const Examples images = small_images();
  Training own = compressed_training({.kind = parallel::Compression::top_k, .momentum = 0.9}, 1),
           plain = compressed_training({}, 1);
  plain.optimizer = optim::with({.kind = "sgd", .learning_rate = 0.1}, "momentum = 0.9");
  const auto expected = train(images, plain);
  // Two formulas of the same number of roundings: a few of them a step, through 12 steps of a small network.
  const double moved = largest_difference(expected[0].trajectory.front(), expected[0].parameters);
  CHECK(largest_difference(train(images, own)[0].parameters, expected[0].parameters) <= 1e-4 * moved);

  own = compressed_training({.kind = parallel::Compression::bf16, .clip_norm = 0.1}, 1);
  plain = compressed_training({}, 1);
  plain.optimizer.clip_norm = 0.1;
  const auto clipped = train(images, plain);
  const double clipped_moved = largest_difference(clipped[0].trajectory.front(), clipped[0].parameters);
  CHECK(largest_difference(train(images, own)[0].parameters, clipped[0].parameters) <= 1e-4 * clipped_moved);
  CHECK(largest_difference(train(images, compressed_training({}, 1))[0].parameters, clipped[0].parameters) > 1e-3);
}

TEST_CASE("exact blocks and biases have the sum of an allreduce from the first step on", "[compressed_sum]") {
  const Examples images = small_images();
  Training training = compressed_training({.kind = parallel::Compression::top_k, .density = 0.01, .exact = {"*"}}, 3);
  const auto plain = train(images, compressed_training({}, 3));
  CHECK(same_outcome_bits(train(images, training), plain));

  training = compressed_training({.kind = parallel::Compression::top_k, .density = 0.01, .exact = {"dense2"}}, 3);
  training.stop_after = 1;
  Training one_step = compressed_training({}, 3);
  one_step.stop_after = 1;
  const auto some = train(images, training), all = train(images, one_step);
  CHECK_FALSE(same_outcome_bits(some, all));
  // dense2 are the last blocks of θ.
  const std::size_t last = 3;
  CHECK(std::ranges::equal(std::span(some[0].parameters).last(last), std::span(all[0].parameters).last(last)));
}

TEST_CASE("only what is compressed is encoded: no biases, and nothing between blocks", "[compressed_sum]") {
  // Weights of 36 × 20 and 20 × 3; behind them 20 and 3 biases, in blocks that begin at multiples of 16.
  Training training = {.model = network_of({nn::layer("flatten"), nn::dense(20), nn::layer("tanh"), nn::dense(3)}),
                       .strategy = compressed({.kind = parallel::Compression::bf16}),
                       .optimizer = {.kind = "sgd", .learning_rate = 0.1},
                       .ranks = 2,
                       .batch_size = 2,
                       .epochs = 1,
                       .stop_after = 1};
  const Index weights = 36 * 20 + 20 * 3, biases = 20 + 3;
  const auto sent = train(small_images(16), training)[0].counters.get<parallel::CompressionCounters>().sent_bytes;
  CHECK(sent == 2 * weights + parallel::plain_sum_bytes(biases, 2));
}

TEST_CASE("PowerSGD is exact where gradients have so low a rank", "[compressed_sum][power_sgd]") {
  // The gradient of a dense layer over a batch of 2 has rank 2 at most; layers of 36 × 20 and 20 × 3 are longer than
  // factors of rank 4 or not compressed. Without columns to spare, a column of R may be nearly orthogonal to the rows
  // of the next gradient, and rounding errors would grow from step to step.
  const Examples images = small_images(16);
  Training plain = {.model = network_of({nn::layer("flatten"), nn::dense(20), nn::layer("tanh"), nn::dense(3)}),
                    .strategy = compressed({}),
                    .optimizer = {.kind = "sgd", .learning_rate = 0.1},
                    .ranks = 2,
                    .batch_size = 2,
                    .epochs = 1};
  const auto expected = train(images, plain);
  plain.strategy = compressed({.kind = parallel::Compression::power_sgd, .rank = 4});
  const auto outcomes = train(images, plain);
  CHECK(outcomes[0].counters.get<parallel::CompressionCounters>().sent_bytes <
        outcomes[0].counters.get<parallel::CompressionCounters>().plain_bytes);
  // L has orthonormal columns to a few roundings: an error of each gradient of some 10⁻⁶ of it, in 8 steps.
  const double moved = largest_difference(expected[0].trajectory.front(), expected[0].parameters);
  CHECK(largest_difference(outcomes[0].parameters, expected[0].parameters) <= 1e-4 * moved);
  CHECK_FALSE(same_outcome_bits(outcomes, expected));
  plain.strategy = compressed({.kind = parallel::Compression::power_sgd, .rank = 1});
  CHECK(largest_difference(train(images, plain)[0].parameters, expected[0].parameters) > 1e-3 * moved);
}

TEST_CASE("replicas that are pipelines are compressed, too", "[compressed_sum]") {
  const Examples images = small_images();
  for (const parallel::CompressionSettings& settings : all_kinds()) {
    INFO(compression_name(settings));
    Training training = compressed_training(settings, 4);
    if (settings.exact.size() > 0) continue;  // names of the whole model
    training.replica.stages = 2;
    training.micro_batches = 2;
    const auto outcomes = train(images, training);
    CHECK(ranks_agree(outcomes));
  }
}

TEST_CASE("a pattern that fits no block is refused", "[compressed_sum]") {
  const Training training = compressed_training({.kind = parallel::Compression::bf16, .exact = {"dense7"}}, 1);
  CHECK_THROWS_WITH(train(small_images(), training), Catch::Contains("no block of the model fits 'dense7'"));
}

}  // namespace unisono::strategies
