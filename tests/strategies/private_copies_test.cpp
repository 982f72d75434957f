#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "sparse_examples.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::strategies {
namespace {

StrategySettings copies(int threads, const std::string& merge, int merge_every) {
  return strategy_of(fmt::format("kind = 'private_copies', threads = {}, merge = '{}', merge_every = {}", threads,
                                 merge, merge_every));
}

}  // namespace

TEST_CASE("one thread with a copy of its own is the serial run, bit for bit", "[private_copies]") {
  const InPlaceMemory memory = draw_memory();
  for (const InPlaceCase& one : in_place_cases(memory)) {
    INFO(one.name);
    const auto serial = train({}, one.training({.kind = "serial"}));
    for (const std::string merge : {"sum", "mean"}) {
      CHECK(train({}, one.training(copies(1, merge, 7)))[0].trajectory == serial[0].trajectory);
    }
  }
}

TEST_CASE("copies are merged as one works out by hand", "[private_copies]") {
  // Rows with the single feature 0, x = 1, squared loss, rate 1/8, no bias; θ = 0 at first. In the first round, thread
  // 0 has t = 1 and thread 1 has t = 2: w becomes 1/8 and 2/8, so that 3/8 is their sum and 3/16 their mean. In the
  // second round t = 3 and 4: the sum goes on by (21/8 + 29/8) / 8 = 50/64 to 74/64, the mean by half of (45 + 61) /
  // 128.
  const std::vector<std::uint64_t> offsets = {0, 1, 2, 3, 4};
  const std::vector<std::uint32_t> columns = {0, 0, 0, 0};
  const std::vector<float> targets = {1, 2, 3, 4};
  InPlaceCase one;
  one.model.kind = "linear";
  one.model.linear.bias = false;
  one.optimizer = {.kind = "sgd", .learning_rate = 0.125};
  one.inputs = {.kind = data::SetKind::sparse, .features = {.channels = 1}, .target_size = 1};
  one.set = data::LabelledRows{.rows = {.offsets = offsets, .columns = columns, .values = {}, .width = 1},
                               .targets = targets};
  one.units = one.examples = 4;
  const auto weight_after = [&](const std::string& merge) {
    Training training = one.training(copies(2, merge, 1));
    training.epochs = 1;
    return train({}, training)[0].parameters[0];
  };
  CHECK(weight_after("sum") == 74.0F / 64);
  CHECK(weight_after("mean") == 3.0F / 16 + 53.0F / 128);
}

TEST_CASE("threads with copies give the same bits in every run, also when stopped and resumed",
          "[long][private_copies]") {
  const InPlaceMemory memory = draw_memory();
  for (const InPlaceCase& one : in_place_cases(memory)) {
    for (const std::string merge : {"sum", "mean"}) {
      INFO(one.name << ", " << merge);
      Training training = one.training(copies(3, merge, 4));
      const auto whole = train({}, training);
      CHECK(train({}, training)[0].trajectory == whole[0].trajectory);
      training.stop_after = 5;
      const auto stopped = train({}, training);
      training.stop_after = 1000;
      training.resumed = &stopped;
      CHECK(train({}, training)[0].parameters == whole[0].parameters);
    }
  }
}

TEST_CASE("several ranks are refused by strategies of one rank's threads", "[private_copies]") {
  const InPlaceMemory memory = draw_memory();
  const InPlaceCase one = in_place_cases(memory).front();
  Training training = one.training(copies(2, "mean", 4));
  training.ranks = 2;
  CHECK_THROWS_AS(train({}, training), ConfigError);
}

}  // namespace unisono::strategies
