#include "cooccurrence/pair_table.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "support.hpp"

using namespace unisono::data;

namespace {

std::vector<std::pair<std::uint64_t, std::uint64_t>> list(std::span<const unisono::data::PairSum> sums) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> listed;
  for (const unisono::data::PairSum& sum : sums) listed.emplace_back(sum.place, sum.weight);
  return listed;
}

}  // namespace

TEST_CASE("a place tells its pair, for any seed", "[cooccurrences]") {
  const unisono::data::PairOrder order(1), other(2);
  std::set<std::uint64_t> places;
  unisono::RandomStream random(1, unisono::Purpose::test);
  for (std::uint32_t i = 0; i < 1000; ++i) {
    const unisono::data::WordPair pair =
        i < 500 ? unisono::data::WordPair{i / 25, i % 25} : unisono::data::WordPair{random.bits(), random.bits()};
    CHECK(order.pair_at(order.place_of(pair)) == pair);
    CHECK(order.place_of(pair) != other.place_of(pair));
    places.insert(order.place_of(pair));
  }
  CHECK(places.size() == 1000);
  // Places of pairs that are alike are spread: each quarter has its share, within some five deviations.
  int first_quarter = 0;
  for (std::uint32_t i = 0; i < 10000; ++i) first_quarter += order.place_of({3, i}) >> 62 == 0 ? 1 : 0;
  CHECK(std::abs(first_quarter - 2500) < 220);
}

TEST_CASE("a table adds up weights, grows, and gives them out in order", "[cooccurrences]") {
  unisono::data::PairTable table(64 << 20);
  std::map<std::uint64_t, std::uint64_t> expected;
  unisono::RandomStream random(2, unisono::Purpose::test);
  for (int i = 0; i < 200000; ++i) {
    const std::uint64_t place = random.below(100000) * 0x9E3779B97F4A7C15;
    REQUIRE(table.add(place, static_cast<std::uint64_t>(i % 5 + 1)));
    expected[place] += static_cast<std::uint64_t>(i % 5 + 1);
  }
  CHECK(list(table.sort()) == std::vector<std::pair<std::uint64_t, std::uint64_t>>(expected.begin(), expected.end()));
  table.clear();
  CHECK(table.add(7, 1));
  CHECK(list(table.sort()) == std::vector<std::pair<std::uint64_t, std::uint64_t>>{{7, 1}});
}

TEST_CASE("places at the very end of the order, or all in one slot, find room or are refused", "[cooccurrences]") {
  unisono::data::PairTable table(1 << 20);
  std::uint64_t added = 0;
  while (table.add(~std::uint64_t{0} - added, 1)) ++added;
  CHECK(added > 4000);  // as many as the tail has slots for
  const auto sums = table.sort();
  CHECK(sums.size() == added);
  CHECK(std::is_sorted(sums.begin(), sums.end(), [](const unisono::data::PairSum& a, const unisono::data::PairSum& b) {
    return a.place < b.place;
  }));
}

TEST_CASE("a table that is full says so, and keeps to its memory", "[cooccurrences]") {
  unisono::data::PairTable table(1 << 20);  // 65,536 slots in all
  const unisono::data::PairOrder order(1);
  std::uint32_t added = 0;
  while (table.add(order.place_of({0, added}), 1)) ++added;
  CHECK(added < 65536);
  CHECK(added > 20000);
  CHECK(table.add(order.place_of({0, 5}), 1));  // what is there can still be added to
  CHECK(table.sort().size() == added);
}

TEST_CASE("runs are merged, and what is in several is added up", "[cooccurrences]") {
  const unisono::test::TempDir folder;
  unisono::data::PairRuns runs(folder / "a.h5");
  const std::vector<unisono::data::PairSum> first{{1, 10}, {5, 20}, {~std::uint64_t{0}, 1}}, second{{0, 3}, {5, 4}},
      third{{5, 1}};
  runs.add(first);
  runs.add({});
  runs.add(second);
  runs.add(third);
  CHECK(runs.size() == 4);
  for (int times = 0; times < 2; ++times) {
    std::vector<unisono::data::PairSum> merged;
    runs.for_each(0, [&](const unisono::data::PairSum& sum) { merged.push_back(sum); });
    CHECK(list(merged) ==
          std::vector<std::pair<std::uint64_t, std::uint64_t>>{{0, 3}, {1, 10}, {5, 25}, {~std::uint64_t{0}, 1}});
  }
}
