#include "unisono/base/threads.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace unisono {
namespace {

TEST_CASE("every thread of a team does its part of each round", "[thread_team]") {
  for (const int size : {1, 2, 5}) {
    ThreadTeam team(size);
    REQUIRE(team.size() == size);
    std::vector<int> rounds(static_cast<std::size_t>(size));
    for (int round = 1; round <= 200; ++round) {
      team.run([&](int thread) { ++rounds[static_cast<std::size_t>(thread)]; });
      REQUIRE(rounds == std::vector<int>(static_cast<std::size_t>(size), round));
    }
  }
}

TEST_CASE("a team takes each of many pieces once, and hands on what one throws", "[thread_team]") {
  for (const int size : {1, 3}) {
    ThreadTeam team(size);
    std::vector<int> taken(100);
    team.run_each(7, taken.size(), [&](int thread, std::size_t i) {
      if (thread >= 0 && thread < size) ++taken[i];
    });
    for (std::size_t i = 0; i < taken.size(); ++i) CHECK(taken[i] == (i < 7 ? 0 : 1));
    team.run_each(5, 5, [&](int, std::size_t) { taken.clear(); });
    CHECK(taken.size() == 100);
    CHECK_THROWS_AS(team.run_each(0, 9,
                                  [](int, std::size_t i) {
                                    if (i == 4) throw std::runtime_error("piece");
                                  }),
                    std::runtime_error);
  }
}

TEST_CASE("the parts run at the same time, the first on the caller", "[thread_team]") {
  ThreadTeam team(3);
  std::atomic<int> arrived{0};
  std::vector<std::thread::id> ids(3);
  team.run([&](int thread) {
    ids[static_cast<std::size_t>(thread)] = std::this_thread::get_id();
    ++arrived;
    while (arrived < 3) std::this_thread::yield();  // ends only if all three are there
  });
  CHECK(ids[0] == std::this_thread::get_id());
  CHECK(std::set<std::thread::id>(ids.begin(), ids.end()).size() == 3);
}

TEST_CASE("what a thread of a team throws reaches the caller, once", "[thread_team]") {
  ThreadTeam team(3);
  std::atomic<int> done{0};
  const auto work = [&](int thread) {
    if (thread == 1) throw std::runtime_error("one");
    ++done;
  };
  CHECK_THROWS_WITH(team.run(work), "one");
  CHECK(done == 2);
  CHECK_NOTHROW(team.run([&](int) { ++done; }));
  CHECK(done == 5);
}

}  // namespace
}  // namespace unisono
