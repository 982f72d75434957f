#include "unisono/comm/gather.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "divisions.hpp"
#include "expect.hpp"
#include "redistribute.hpp"

using namespace unisono;
using namespace unisono::comm;

namespace {

/// A value that no other number has.
float element_value(test::Element element) {
  return static_cast<float>(1000 * (static_cast<Index>(element.block) + 1) + element.position);
}

std::vector<float> vector_of(const ShardMap& map, int rank) {
  std::vector<float> values(rank < map.ranks() ? static_cast<std::size_t>(map.local(rank).size()) : 0);
  if (rank >= map.ranks()) return values;
  test::for_each_held(map, rank,
                      [&](test::Element element, std::size_t offset) { values[offset] = element_value(element); });
  return values;
}

}  // namespace

TEST_CASE("every division can be made of every other one", "[shards]") {
  const ParameterLayout layout = test::mixed_layout();
  const int ranks = GENERATE(1, 2, 3, 4);
  // Also of fewer ranks: a run goes on with more.
  const int ranks_before = GENERATE_COPY(range(1, ranks + 1));
  for (const auto& [from_name, from] : test::divisions_of(layout, ranks_before)) {
    for (const auto& [to_name, to] : test::divisions_of(layout, ranks)) {
      INFO(from_name << " over " << ranks_before << " → " << to_name << " over " << ranks);
      const auto body = [&given = from, &taken = to](Communicator& communicator) {
        const std::vector<float> expected = vector_of(taken, communicator.rank());
        std::vector<float> values(expected.size());
        test::redistribute(communicator, given, vector_of(given, communicator.rank()), taken, values);
        EXPECT(values == expected);
      };
      CHECK_NOTHROW(run_as_threads(ranks, body));
    }
  }
}

TEST_CASE("a vector of all of θ is read by any division, and written by any", "[shards]") {
  const ParameterLayout layout = test::mixed_layout();
  const ShardMap file = test::whole(layout, 1);
  const std::vector<float> all = vector_of(file, 0);
  for (const int ranks : {1, 2, 3, 4}) {
    for (const auto& [name, map] : test::divisions_of(layout, ranks)) {
      INFO(name << " over " << ranks);
      std::vector<float> written(all.size());
      for (int rank = 0; rank < ranks; ++rank) {
        std::vector<float> own(static_cast<std::size_t>(map.local(rank).size()));
        test::copy_common(file, 0, all, map, rank, own);
        CHECK(own == vector_of(map, rank));
        test::copy_common(map, rank, own, file, 0, written);
      }
      CHECK(written == all);
    }
  }
}

TEST_CASE("a norm has the same bits however θ is divided", "[shards]") {
  const ParameterLayout layout = test::mixed_layout();
  const auto rough = [](test::Element element) {
    return std::ldexp(std::sin(element_value(element)), static_cast<int>(element.position % 40) - 20);
  };
  double expected = 0;
  const auto norm_of = [&](const ShardMap& map, int ranks) {
    std::vector<double> norms(static_cast<std::size_t>(ranks));
    run_as_threads(ranks, [&](Communicator& communicator) {
      const int rank = communicator.rank();
      std::vector<float> own(static_cast<std::size_t>(map.local(rank).size()));
      test::for_each_held(map, rank, [&](test::Element element, std::size_t offset) { own[offset] = rough(element); });
      ExactSquares squares;  // of several copies, the first one's
      test::for_each_held(map, rank, [&](test::Element element, std::size_t offset) {
        const Shard* holder = nullptr;
        for (const Shard& shard : map.shards_of(rank)) {
          if (shard.block == element.block) holder = &shard;
        }
        if (holder->copy == 0) squares.add(View(own).subspan(offset, 1));
      });
      CommunicatorSquares(communicator).sum({&squares, 1});
      norms[static_cast<std::size_t>(rank)] = squares.value();
    });
    CHECK(std::count(norms.begin(), norms.end(), norms.front()) == ranks);
    return norms.front();
  };
  expected = norm_of(test::whole(layout, 1), 1);
  CHECK(expected > 0);
  for (const int ranks : {1, 2, 3, 4}) {
    for (const auto& [name, map] : test::divisions_of(layout, ranks)) {
      INFO(name << " over " << ranks);
      CHECK(norm_of(map, ranks) == expected);
    }
  }
}

TEST_CASE("divisions of different vectors are not mixed up", "[shards]") {
  ParameterLayout other;
  other.add({.name = "w", .shape = {3}});
  const ShardMap from = test::whole(other, 1), to = test::whole(test::mixed_layout(), 1);
  std::vector<float> given(16), taken(static_cast<std::size_t>(to.layout().size()));
  CHECK_THROWS_AS(test::copy_common(from, 0, given, to, 0, taken), std::logic_error);
}
