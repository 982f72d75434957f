#include "source/batch_sources.hpp"

#include <catch2/catch.hpp>
#include <value_of.hpp>

#include "sets.hpp"

using namespace unisono::data;
using namespace unisono::test;

namespace {

using ExampleSteps = std::vector<std::vector<std::uint64_t>>;

/// What `lanes` sources of every `lanes`-th step yield, in the order of the steps.
ExampleSteps take_in_lanes(unisono::data::Dataset& set, unisono::data::SourceOptions options, int lanes,
                           std::int64_t steps, const unisono::data::DataCursor& start = {}) {
  std::vector<std::unique_ptr<unisono::data::BatchSource>> sources;
  for (int lane = 0; lane < lanes; ++lane) {
    options.lane = lane;
    options.lanes = lanes;
    sources.push_back(set.train(options));
    if (start.epoch + start.step > 0) {
      unisono::test::take_steps(*sources.back(), 1);
      sources.back()->seek(start);
    }
  }
  ExampleSteps taken;
  for (std::int64_t step = 0; step < steps; ++step) {
    taken.push_back(unisono::test::take_steps(*sources[static_cast<std::size_t>(step % lanes)], 1).front());
  }
  return taken;
}

unisono::data::DataSettings settings_of(const std::string& path, const std::string& reader) {
  unisono::data::DataSettings settings;
  settings.path = path;
  settings.reader = unisono::value_of(reader, unisono::data::kReaders);
  return settings;
}

}  // namespace

TEST_CASE("lanes share the steps of one source", "[source]") {
  const unisono::test::TempDir folder;
  unisono::test::write_set(folder / "a.h5", {.train = 103});
  const auto set = unisono::data::open_dataset(settings_of(folder / "a.h5", "resident"), 1);
  for (const unisono::Index accumulate : {1, 3}) {
    for (const int size : {1, 2}) {
      const unisono::data::SourceOptions options{
          .rank = size - 1, .size = size, .batch_size = 10, .micro_batches = accumulate, .seed = 1};
      const auto whole = set->train(options);
      const ExampleSteps all = unisono::test::take_steps(*whole, 33);  // three epochs of 11
      for (const int lanes : {1, 2, 3, 12}) {
        CAPTURE(accumulate, size, lanes);
        CHECK(take_in_lanes(*set, options, lanes, 33) == all);
        CHECK(take_in_lanes(*set, options, lanes, 20, {1, 2}) == ExampleSteps(all.begin() + 13, all.end()));
      }
    }
  }
}

TEST_CASE("a streamed set has no lanes", "[source]") {
  const unisono::test::TempDir folder;
  unisono::test::write_set(folder / "a.h5", {});
  const auto set = unisono::data::open_dataset(settings_of(folder / "a.h5", "streaming"), 1);
  CHECK_THAT(unisono::test::message_of<unisono::ConfigError>(
                 [&] { set->train({.lane = 1, .lanes = 2, .lanes_for = "the race"}); }),
             Catch::Contains("a.h5: the race needs the data set in memory") &&
                 Catch::Contains("set data.reader = \"resident\""));
}
