#include "unisono/base/counters.hpp"

#include <catch2/catch.hpp>

namespace unisono {
namespace {

/// Counts apples, of which some are ripe, and their sizes.
struct AppleCounters {
  std::int64_t apples = 0, ripe = 0;
  double weight = 0;
  Histogram sizes = {};

  void describe(CounterVisitor& visitor) {
    visitor.count({.name = "apples"}, apples);
    visitor.count({.name = "ripe", .adds_up = false}, ripe);
    visitor.number({.name = "weight"}, weight);
    visitor.histogram({.name = "sizes"}, sizes);
  }
  std::string text(const CounterTerms& terms) const { return terms.bytes_line("apples", apples); }
};

struct PearCounters {
  std::int64_t pears = 7;
  void describe(CounterVisitor& visitor) { visitor.count({.name = "pears"}, pears); }
};

TEST_CASE("a set keeps a struct for each type, where it is", "[counters]") {
  CounterSet counters;
  CHECK(counters.find<AppleCounters>() == nullptr);
  CHECK(counters.get<PearCounters>().pears == 7);
  CHECK(counters.find<PearCounters>() == nullptr);
  AppleCounters& apples = counters.of<AppleCounters>();
  counters.of<PearCounters>().pears = 8;
  apples.apples = 3;
  CHECK(&counters.of<AppleCounters>() == &apples);
  CHECK(counters.get<AppleCounters>().apples == 3);
  CHECK(counters.get<PearCounters>().pears == 8);
}

TEST_CASE("a copy of a set counts by itself", "[counters]") {
  CounterSet counters;
  counters.of<AppleCounters>().apples = 3;
  CounterSet copy = counters;
  copy.of<AppleCounters>().apples = 4;
  CHECK(counters.get<AppleCounters>().apples == 3);
  CHECK(copy.get<AppleCounters>().apples == 4);
}

TEST_CASE("a difference has what was added since, and the present value of the rest", "[counters]") {
  CounterSet before, after;
  before.of<AppleCounters>() = {.apples = 3, .ripe = 2, .weight = 0.5, .sizes = {{1, 2, 1}}};
  after.of<AppleCounters>() = {.apples = 10, .ripe = 1, .weight = 2, .sizes = {{4, 2, 1}}};
  const auto between = difference(after, before).get<AppleCounters>();
  CHECK(between.apples == 7);
  CHECK(between.ripe == 1);
  CHECK(between.weight == 1.5);
  CHECK(between.sizes.counts == std::vector<std::int64_t>{3});  // no size above 0 was added
  CHECK(difference(after, {}).get<AppleCounters>().apples == 10);
}

TEST_CASE("bytes are shown for a rank and an epoch, and none are not", "[counters]") {
  CounterSet counters;
  counters.of<AppleCounters>().apples = 24'000'000;
  counters.of<PearCounters>();
  CHECK(counters.text({.ranks = 4, .epochs = 2}) == "  apples      3.0 MB per epoch and rank\n");
  counters.of<AppleCounters>().apples = 0;
  CHECK(counters.text({.ranks = 4, .epochs = 2}).empty());
}

TEST_CASE("a histogram counts small values one by one, and large ones in shares of a doubling", "[counters]") {
  Histogram histogram;
  CHECK(histogram.total() == 0);
  CHECK(histogram.mean() == 0);
  CHECK(histogram.largest() == 0);
  for (const std::int64_t value : {0, 2, 2, 1023, -1}) histogram.add(value);
  CHECK(histogram.counts.front() == 2);
  CHECK(histogram.total() == 5);
  CHECK(histogram.largest() == 1023);
  CHECK(histogram.mean() == (2 + 2 + 1023) / 5.0);
  Histogram other{{1, 1}};
  other += histogram;
  CHECK(other.counts[0] == 3);
  CHECK(other.counts[1] == 1);
  CHECK(other.total() == 7);
}

TEST_CASE("what a histogram says of large values is right within 2 %", "[counters]") {
  for (std::int64_t value = 1; value < std::int64_t{1} << 40; value = value * 5 / 4 + 1) {
    Histogram histogram;
    histogram.add(value);
    CHECK(histogram.counts.size() < 2100);
    CHECK(histogram.mean() == Approx(static_cast<double>(value)).epsilon(0.02));
    CHECK(histogram.largest() == histogram.value_of(histogram.counts.size() - 1));
    if (value < 1024) CHECK(histogram.largest() == value);
  }
  for (std::size_t i = 1; i < 2000; ++i) CHECK(Histogram::value_of(i) > Histogram::value_of(i - 1));
}

}  // namespace
}  // namespace unisono
