#include "server/wire.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "expect.hpp"
#include "least_squares.hpp"
#include "parameter_server.hpp"
#include "rounding.hpp"
#include "server/shard.hpp"
#include "unisono/base/random.hpp"
#include "unisono/parallel/counters.hpp"

namespace unisono::strategies {
namespace {

std::vector<parallel::CompressionSettings> all_kinds() {
  return {{.kind = parallel::Compression::bf16},
          {.kind = parallel::Compression::eight_bit},
          {.kind = parallel::Compression::one_bit},
          {.kind = parallel::Compression::threshold, .threshold_density = 0.1},
          {.kind = parallel::Compression::top_k, .density = 0.1}};
}

std::string name_of(const parallel::CompressionSettings& settings) {
  return "kind " + std::to_string(static_cast<int>(settings.kind));
}

StrategySettings compressed(const parallel::CompressionSettings& compression, Consistency consistency,
                            std::int64_t servers, std::int64_t push_period = 1) {
  return strategy_with(
      {.kind = "parameter_server", .servers = servers},
      ParameterServerSettings{
          .consistency = consistency, .staleness = 4, .push_period = push_period, .compression = compression});
}

ParameterLayout some_layout() {
  ParameterLayout layout;
  layout.add({.name = "first.weight", .shape = {700}, .role = Role::weight});
  layout.add({.name = "first.bias", .shape = {7}, .role = Role::bias});
  layout.add({.name = "second.weight", .shape = {333}, .role = Role::weight});
  layout.add({.name = "still.weight", .shape = {20}, .role = Role::weight, .frozen = true});
  return layout;
}

std::vector<float> draw(Index n, std::uint64_t number) {
  RandomStream random(7, Purpose::test, number);
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& value : values) value = static_cast<float>(random.uniform()) - 0.5F;
  return values;
}

/// What all servers make of a worker's messages: a vector of θ's size.
std::vector<float> decoded(const ParameterLayout& layout, const std::vector<comm::Slice>& shards,
                           const parallel::CompressionSettings& settings,
                           const std::vector<std::span<const std::byte>>& messages) {
  std::vector<float> vector(static_cast<std::size_t>(layout.size()), 9.0F);
  for (std::size_t i = 0; i < shards.size(); ++i) {
    PushCode(layout, shards[i], settings).decode(messages[i], slice(MutableView(vector), shards[i]));
  }
  return vector;
}

/// y = Σ w_j x_j + b with x_j = 2^−(j mod 4), or 1, and a target so far away that each gradient of an example is the
/// same: 2 (y − t) x_j = −127 · 2²⁴ x_j as long as |y| < 32, half of the distance of floats at t = 127 · 2²³.
constexpr Index kWeights = 20, kExamples = 96;
constexpr double kSlope = -127 * 0x1p24, kRate = 0x1p-38;

Examples far_away(bool equal_features, Index count = kExamples) {
  Examples examples{.shape = {.channels = kWeights},
                    .features = {},
                    .targets = std::vector<float>(static_cast<std::size_t>(count), 127 * 0x1p23F)};
  for (Index i = 0; i < count * kWeights; ++i) {
    examples.features.push_back(equal_features ? 1.0F : std::ldexp(1.0F, -static_cast<int>(i % kWeights % 4)));
  }
  return examples;
}

double slope(Index weight) { return std::ldexp(kSlope, -static_cast<int>(weight % 4)); }

Training compressed_training(const StrategySettings& strategy, int ranks) {
  return {.model = least_squares(),
          .strategy = strategy,
          .optimizer = {.kind = "sgd", .learning_rate = kRate},
          .ranks = ranks,
          .batch_size = 4,
          .epochs = 3,
          .due_every = 7};
}

double unsent(const std::vector<Outcome>& ranks, Index weight) {
  double sum = 0;
  for (const Outcome& rank : ranks) {
    sum += static_cast<double>(rank.vectors.front().values.view()[static_cast<std::size_t>(weight)]);
  }
  return sum;
}

double most_unsent(const std::vector<Outcome>& ranks) {
  double most = 0;
  for (Index j = 0; j < kWeights; ++j) most = std::max(most, std::abs(unsent(ranks, j)));
  return most;
}

/// The largest difference of what has come to the servers and is unsent from so many gradients, relative to these.
double most_lost(const std::vector<Outcome>& ranks, double gradients) {
  double most = 0;
  for (Index j = 0; j < kWeights; ++j) {
    const double come = -static_cast<double>(ranks[0].parameters[static_cast<std::size_t>(j)]) / kRate;
    most = std::max(most, std::abs(come + unsent(ranks, j) - gradients * slope(j)));
  }
  return most / (gradients * std::abs(kSlope));
}

/// A push rounds e and the rest, and the server θ, each to half an ulp of numbers up to the sum of all gradients.
double rounding_of_pushes(double pushes) { return 3 * pushes * kUnitRoundoff; }

}  // namespace

TEST_CASE("what a server decodes and what a worker keeps are what it had", "[server][compression]") {
  const ParameterLayout layout = some_layout();
  for (const parallel::CompressionSettings& settings : all_kinds()) {
    for (const int servers : {1, 2, 3}) {
      INFO(name_of(settings) << ", " << servers << " servers");
      const std::vector<comm::Slice> shards = cut_into_shards(layout, servers, Cut::lines);
      const std::vector<float> values = draw(layout.size(), 1);
      std::vector<float> rest = values, sent(values.size());
      Index bytes = 0;
      for (const comm::Slice& shard : shards) {
        PushCode code(layout, shard, settings);
        std::vector<std::byte> message(static_cast<std::size_t>(code.most_bytes()));
        const Index used = code.encode(rest, {.step = 3, .sender = 1}, message);
        REQUIRE(used <= code.most_bytes());
        message.resize(static_cast<std::size_t>(used));
        code.decode(message, slice(MutableView(sent), shard));
        bytes += used;
      }
      std::vector<bool> is_sent(values.size());
      for (const std::size_t b : {0, 1, 2}) {
        const Block& block = layout.blocks()[b];
        for (Index i = block.offset; i < block.offset + block.size(); ++i) {
          const auto at = static_cast<std::size_t>(i);
          is_sent[at] = true;
          EXPECT(rest[at] == values[at] - sent[at]);
          EXPECT((b != 1 || rest[at] == 0));  // biases go whole
        }
      }
      for (std::size_t i = 0; i < values.size(); ++i) EXPECT((is_sent[i] || (rest[i] == values[i] && sent[i] == 0)));
      // 1033 compressed floats in up to four parts, and 7 exact ones.
      const std::array most = {2.0 * 1033, 258.0 / 256 * 1033 + 4 * 2, 4 * 40.0 + 160, 4.0 * 104 * 2 + 4 * 24,
                               8.0 * (104 + 3) + 4 * 24};
      const std::array kinds = {parallel::Compression::bf16, parallel::Compression::eight_bit,
                                parallel::Compression::one_bit, parallel::Compression::threshold,
                                parallel::Compression::top_k};
      const auto kind = static_cast<std::size_t>(std::ranges::find(kinds, settings.kind) - kinds.begin());
      CHECK(static_cast<double>(bytes) <= most[kind] + 7 * 4 + 4 * 16);
    }
  }
}

TEST_CASE("an empty message says nothing", "[server][compression]") {
  const ParameterLayout layout = some_layout();
  const comm::Slice all{0, layout.size()};
  std::vector<float> values(static_cast<std::size_t>(layout.size()), 1.0F);
  PushCode(layout, all, {.kind = parallel::Compression::bf16}).decode({}, values);
  CHECK(std::ranges::all_of(values, [](float value) { return value == 0; }));
}

TEST_CASE("all pushes and the residual are all gradients", "[server][compression]") {
  constexpr int kSteps = 12;
  const ParameterLayout layout = some_layout();
  const std::vector<comm::Slice> shards = cut_into_shards(layout, 2, Cut::lines);
  const auto backend = kernels::make_cpu_backend(1);
  for (const parallel::CompressionSettings& settings : all_kinds()) {
    INFO(name_of(settings));
    std::vector<float> residual(static_cast<std::size_t>(layout.size()));
    CompressedPushes pushes(layout, shards, settings, 0, residual, *backend);
    std::vector<double> sent(residual.size()), all(residual.size());
    float largest = 0;
    for (int step = 0; step < kSteps; ++step) {
      const std::vector<float> gradient = draw(layout.size(), static_cast<std::uint64_t>(step));
      const std::vector<float> message = decoded(layout, shards, settings, pushes.encode(gradient, 0.5F, step));
      for (std::size_t i = 0; i < sent.size(); ++i) {
        sent[i] += static_cast<double>(message[i]);
        all[i] += 0.5 * static_cast<double>(gradient[i]);
        largest = std::max({largest, std::abs(residual[i]), std::abs(residual[i] + message[i])});
      }
    }
    double most = 0, kept = 0;
    for (const std::size_t b : {0, 1, 2}) {
      const Block& block = layout.blocks()[b];
      for (Index j = block.offset; j < block.offset + block.size(); ++j) {
        const auto i = static_cast<std::size_t>(j);
        most = std::max(most, std::abs(sent[i] + static_cast<double>(residual[i]) - all[i]));
        kept = std::max(kept, static_cast<double>(std::abs(residual[i])));
      }
    }
    // e and the rest are rounded once in each step.
    CHECK(most <= 2 * kSteps * kUnitRoundoff * static_cast<double>(largest));
    CHECK(kept > 1e-4);
  }
}

TEST_CASE("workers and steps round at random, each in its own way and always in the same", "[server][compression]") {
  const ParameterLayout layout = some_layout();
  const parallel::CompressionSettings settings{.kind = parallel::Compression::eight_bit};
  const std::vector<comm::Slice> shards = {{0, layout.size()}};
  const auto backend = kernels::make_cpu_backend(1);
  const auto message = [&](int worker, std::int64_t step) {
    std::vector<float> residual(static_cast<std::size_t>(layout.size()));
    CompressedPushes pushes(layout, shards, settings, worker, residual, *backend);
    return decoded(layout, shards, settings, pushes.encode(draw(layout.size(), 1), 1, step));
  };
  CHECK(message(0, 5) == message(0, 5));
  CHECK(message(0, 5) != message(0, 6));
  CHECK(message(0, 5) != message(1, 5));
}

TEST_CASE("gradients that their code says exactly leave the bits of whole pushes", "[server][compression]") {
  const Examples examples = far_away(true);
  for (const Consistency consistency : {Consistency::asynchronous, Consistency::bounded, Consistency::synchronous}) {
    for (const int servers : {0, 1, 2}) {
      INFO(static_cast<int>(consistency) << ", " << servers << " servers");
      const auto whole = train(examples, compressed_training(compressed({}, consistency, servers), servers + 1));
      CHECK(whole[0].parameters[0] == static_cast<float>(-72 * kSlope * kRate));
      for (const parallel::CompressionSettings& settings : all_kinds()) {
        if (settings.kind != parallel::Compression::bf16 && settings.kind != parallel::Compression::eight_bit) continue;
        INFO(name_of(settings));
        const auto pushed =
            train(examples, compressed_training(compressed(settings, consistency, servers), servers + 1));
        CHECK(pushed[0].parameters == whole[0].parameters);
        CHECK(ranks_agree(pushed));
      }
    }
  }
}

TEST_CASE("no compressed push is lost or applied twice", "[server][compression]") {
  const Examples examples = far_away(false);
  for (const parallel::CompressionSettings& settings : all_kinds()) {
    for (const Consistency consistency : {Consistency::asynchronous, Consistency::bounded}) {
      for (const int push_period : {1, 3}) {
        INFO(name_of(settings) << ", " << static_cast<int>(consistency) << ", pushes after " << push_period);
        const auto ranks = train(examples, compressed_training(compressed(settings, consistency, 2, push_period), 6));
        const double steps = 3 * kExamples;  // of one example each
        CHECK(most_lost(ranks, steps) <= rounding_of_pushes(steps));
        if (settings.kind == parallel::Compression::top_k) {  // others may end with nothing unsent, by chance
          CHECK(most_unsent(ranks) > rounding_of_pushes(steps) * steps * std::abs(kSlope));
        }
        std::int64_t sent = 0, plain = 0;
        for (const Outcome& rank : ranks) {
          sent += rank.counters.get<parallel::CompressionCounters>().sent_bytes;
          plain += rank.counters.get<parallel::CompressionCounters>().plain_bytes;
        }
        CHECK(sent > 0);
        CHECK(plain > 0);
        CHECK(ranks_agree(ranks));
      }
    }
  }
}

TEST_CASE("workers without examples send nothing, and keep what they have", "[server][compression]") {
  const Examples examples = far_away(false, 18);  // in an epoch's last step, two of four workers have none
  for (const parallel::CompressionSettings& settings : all_kinds()) {
    INFO(name_of(settings));
    const auto mean = train(examples, compressed_training(compressed(settings, Consistency::synchronous, 0), 4));
    CHECK(most_lost(mean, 15) <= rounding_of_pushes(4 * 15));
    CHECK(ranks_agree(mean));
    const auto each = train(examples, compressed_training(compressed(settings, Consistency::bounded, 0), 4));
    CHECK(most_lost(each, 54) <= rounding_of_pushes(4 * 15));
  }
}

TEST_CASE("a recorded run of compressed pushes is repeated bit for bit", "[server][compression]") {
  const Examples examples = random_examples(48, {.channels = 30}, 0);
  for (const parallel::CompressionSettings& settings : all_kinds()) {
    Training training = compressed_training(compressed(settings, Consistency::asynchronous, 2), 5);
    training.optimizer.learning_rate = 0.01;
    training.epochs = 2;
    const auto recorded = train(examples, training);
    const EventRecord record{.segments = recorded[0].events};
    training.replayed = &record;
    training.strategy.replayed_workers = 3;
    training.strategy.replayed_servers = 2;
    for (const int ranks : {1, 2, 5}) {
      INFO(name_of(settings) << " on " << ranks << " ranks");
      training.ranks = ranks;
      CHECK(train(examples, training)[0].parameters == recorded[0].parameters);
    }
  }
}

TEST_CASE("a run of compressed pushes goes on bit for bit on the same ranks", "[server][compression]") {
  const Examples examples = random_examples(48, {.channels = 30}, 0);
  for (const parallel::CompressionSettings& settings : all_kinds()) {
    INFO(name_of(settings));
    Training training = compressed_training(compressed(settings, Consistency::synchronous, 1), 4);
    training.optimizer = {.kind = "adam", .learning_rate = 0.01};
    training.due_every = 1;
    const auto whole = train(examples, training);
    training.stop_after = 5;
    const auto stopped = train(examples, training);
    REQUIRE(stopped[0].records.back().step == 5);
    training.stop_after = 1000;
    training.resumed = &stopped;
    const auto resumed = train(examples, training);
    CHECK(resumed[0].parameters == whole[0].parameters);
    for (const std::size_t rank : {0, 1, 2}) {
      const View kept = resumed[rank].vectors.front().values.view();
      CHECK(std::ranges::equal(kept, whole[rank].vectors.front().values.view()));
      CHECK(std::ranges::any_of(kept, [](float value) { return value != 0; }));
    }
  }
}

TEST_CASE("what a rank had not pushed is not lost where it only serves later", "[server][compression]") {
  const Examples examples = far_away(false);
  for (const parallel::CompressionSettings& settings : all_kinds()) {
    INFO(name_of(settings));
    Training training = compressed_training(compressed(settings, Consistency::synchronous, 0), 4);
    training.stop_after = 35;
    const auto stopped = train(examples, training);
    training.stop_after = 1000;
    training.resumed = &stopped;
    training.strategy.servers = 2;
    const auto resumed = train(examples, training);
    CHECK(most_lost(resumed, 72) <= rounding_of_pushes(4 * 72));
    const std::vector<int> servers = {1, 3};
    for (const int rank : servers) {
      CHECK(std::ranges::all_of(resumed[static_cast<std::size_t>(rank)].vectors.front().values.view(),
                                [](float value) { return value == 0; }));
    }
  }
}

}  // namespace unisono::strategies
