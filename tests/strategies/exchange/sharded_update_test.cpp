#include <catch2/catch.hpp>
#include <cstring>

#include "../least_squares.hpp"
#include "../small_network.hpp"
#include "optimizers.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/parallel/slice_holding.hpp"

namespace unisono::strategies {
namespace {

StrategySettings sharded() { return strategy_of("kind = 'allreduce', shard = 'optimizer'"); }

/// Optimizers with one and two vectors of state, with and without norms of blocks and of the gradient.
std::vector<optim::OptimizerSettings> optimizers() {
  std::vector<optim::OptimizerSettings> all{optim::with({.kind = "sgd", .learning_rate = 0.05}, "momentum = 0.9")};
  for (const char* kind : {"adagrad", "rmsprop", "adam", "adamw", "lars", "lamb"}) {
    all.push_back({.kind = kind, .learning_rate = 0.02});
  }
  const std::size_t plain = all.size();
  for (std::size_t i = 0; i < plain; ++i) {
    all.push_back(all[i]);
    all.back().clip_norm = 0.05;
    all.back().weight_decay = 0.01;
  }
  return all;
}

std::string optimizer_name(const optim::OptimizerSettings& optimizer) {
  return optimizer.kind + (optimizer.clip_norm > 0 ? ", clipped" : "");
}

Training sharded_training(const optim::OptimizerSettings& optimizer, int ranks) {
  return {.model = small_network(true),
          .optimizer = optimizer,
          .ranks = ranks,
          .batch_size = 7,
          .epochs = 2,
          .bucket_bytes = 512};
}

bool same_bits(View a, View b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

void check_same_bits(const std::vector<Outcome>& sharded_ranks, const std::vector<Outcome>& whole_ranks) {
  REQUIRE(ranks_agree(sharded_ranks));
  for (std::size_t step = 0; step < whole_ranks[0].trajectory.size(); ++step) {
    INFO("step " << step);
    CHECK(same_bits(sharded_ranks[0].trajectory.at(step), whole_ranks[0].trajectory[step]));
  }
  CHECK(same_bits(sharded_ranks[0].statistics, whole_ranks[0].statistics));
  for (std::size_t i = 0; i < whole_ranks[0].optimizer_state.size(); ++i) {
    CHECK(same_bits(sharded_ranks[0].optimizer_state.at(i).values.view(),
                    whole_ranks[0].optimizer_state[i].values.view()));
  }
}

}  // namespace

TEST_CASE("sharded optimizers make the steps of whole ones, bit for bit", "[sharded_update]") {
  const Examples images = small_images();
  for (const optim::OptimizerSettings& optimizer : optimizers()) {
    for (const int ranks : {1, 2, 3, 4}) {
      INFO(optimizer_name(optimizer) << ", " << ranks << " ranks");
      Training training = sharded_training(optimizer, ranks);
      const auto whole = train(images, training);
      training.strategy = sharded();
      check_same_bits(train(images, training), whole);
      training.one_theta = true;
      check_same_bits(train(images, training), whole);
    }
  }
}

TEST_CASE("sharded optimizers make the steps of whole ones with buckets of any size, and micro-batches",
          "[sharded_update]") {
  const Examples images = small_images();
  for (const Index bucket : {64, 192, 1'000'000}) {
    for (const Index micro_batches : {1, 3}) {
      INFO(bucket << " bytes, " << micro_batches << " micro-batches");
      Training training = sharded_training(optim::with({.kind = "lamb", .learning_rate = 0.02}, ""), 3);
      training.optimizer.clip_norm = 0.05;
      training.bucket_bytes = bucket;
      training.micro_batches = micro_batches;
      const auto whole = train(images, training);
      training.strategy = sharded();
      check_same_bits(train(images, training), whole);
    }
  }
}

TEST_CASE("a rank may have nothing to update", "[sharded_update]") {
  const Examples examples = random_examples(23, {.channels = 3}, 0);  // two blocks: two cache lines
  Training training{.model = least_squares(),
                    .optimizer = {.kind = "adam", .learning_rate = 0.1, .clip_norm = 0.1},
                    .ranks = 4,
                    .batch_size = 7,
                    .epochs = 2};
  const auto whole = train(examples, training);
  training.strategy = sharded();
  training.bucket_bytes = 1'000'000;
  const auto shards = train(examples, training);
  check_same_bits(shards, whole);
  for (const bool steps_in_parts : {false, true}) {
    if (steps_in_parts) training.optimizer.clip_norm = 0;
    training.strategy = StrategySettings{};
    const auto whole_again = train(examples, training);
    training.strategy = sharded();
    training.one_theta = true;
    check_same_bits(train(examples, training), whole_again);
    training.one_theta = false;
  }
  Index least = shards[0].state_floats, all = 0;
  for (const Outcome& rank : shards) {
    least = std::min(least, rank.state_floats);
    all += rank.state_floats;
  }
  CHECK(least == 0);
  CHECK(all == whole[0].state_floats);
}

TEST_CASE("each rank keeps its part of the optimizer's state", "[sharded_update]") {
  const Examples images = small_images();
  for (const int ranks : {2, 3, 4}) {
    INFO(ranks << " ranks");
    Training training = sharded_training({.kind = "adam", .learning_rate = 0.02}, ranks);
    const Index whole = train(images, training)[0].state_floats;
    training.strategy = sharded();
    Index all = 0;
    const Index buckets = (whole / 2 * Index{sizeof(float)} + 511) / 512;
    for (const Outcome& rank : train(images, training)) {
      // Of each of two vectors and each bucket, at most a cache line more than its share.
      CHECK(rank.state_floats <= whole / ranks + 2 * buckets * kLineFloats);
      all += rank.state_floats;
    }
    CHECK(all == whole);
  }
}

TEST_CASE("sharded optimizers go on where others stopped, on any number of ranks, sharded or not", "[sharded_update]") {
  const Examples images = small_images();
  Training training = sharded_training({.kind = "adamw", .learning_rate = 0.02, .weight_decay = 0.01}, 3);
  const auto whole = train(images, training);
  training.stop_after = 3;
  for (const bool sharded_before : {false, true}) {
    training.ranks = 3;
    training.resumed = nullptr;
    training.stop_after = 3;
    training.strategy = sharded_before ? sharded() : StrategySettings{};
    const auto stopped = train(images, training);
    REQUIRE(stopped[0].records.size() == 3);
    training.resumed = &stopped;
    training.stop_after = 1'000'000;
    for (const int ranks : {2, 3, 4}) {
      INFO(ranks << " ranks, " << (sharded_before ? "sharded" : "whole") << " before");
      training.ranks = ranks;
      training.strategy = StrategySettings{};
      const auto whole_after = train(images, training);
      training.strategy = sharded();
      training.one_theta = sharded_before;
      const auto sharded_after = train(images, training);
      training.one_theta = false;
      CHECK(same_bits(sharded_after[0].parameters, whole_after[0].parameters));
      if (ranks == 3) CHECK(same_bits(sharded_after[0].parameters, whole[0].parameters));
    }
  }
}

TEST_CASE("optimizers are sharded among the replicas of pipelines, with the same bits", "[sharded_update]") {
  const Examples images = small_images();
  for (const optim::OptimizerSettings& optimizer : optimizers()) {
    for (const int replicas : {2, 3}) {
      INFO(optimizer_name(optimizer) << ", " << replicas << " replicas");
      Training training = sharded_training(optimizer, 2 * replicas);
      training.replica.stages = 2;
      training.micro_batches = 6;
      const auto whole = train(images, training);
      training.strategy = sharded();
      check_same_bits(train(images, training), whole);
      training.one_theta = true;
      check_same_bits(train(images, training), whole);
    }
  }
}

TEST_CASE("slices of buckets are whole cache lines, and cover the vector", "[sharded_update]") {
  for (const Index size : {16, 160, 5008}) {
    for (const Index bucket_bytes : {1, 640, 100'000}) {
      for (const int ranks : {1, 2, 3, 7}) {
        INFO(size << " floats, buckets of " << bucket_bytes << " bytes, " << ranks << " ranks");
        const parallel::StateShards shards(size, bucket_bytes, ranks);
        std::vector<int> holders(static_cast<std::size_t>(size));
        for (int rank = 0; rank < ranks; ++rank) {
          Index end = 0, floats = 0;
          for (const FloatRange& range : shards.ranges_of(rank)) {
            CHECK((range.first >= end && range.first < range.last));
            CHECK(range.first % kLineFloats == 0);
            for (Index i = range.first; i < range.last; ++i) ++holders[static_cast<std::size_t>(i)];
            end = range.last;
            floats += range.last - range.first;
          }
          CHECK(floats == shards.size_of(rank));
        }
        CHECK(std::ranges::count(holders, 1) == size);
      }
    }
  }
}

}  // namespace unisono::strategies
