#include "unisono/session/placement.hpp"

#include <sched.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "expect.hpp"
#include "scratch_folder.hpp"

namespace unisono::session {
namespace {

using testing::ScratchFolder;

/// Ranks with these cores each.
std::vector<RankCores> on(const std::vector<std::vector<int>>& cores, const std::vector<CpuQuota>& quotas = {}) {
  std::vector<RankCores> ranks;
  for (const auto& own : cores) ranks.push_back({own, quotas});
  return ranks;
}

/// The share of the first of the ranks.
int share_of_first(const std::vector<RankCores>& ranks) { return fair_share(ranks.front(), ranks); }

TEST_CASE("a rank's share of the cores is fair, however the launcher bound the ranks", "[placement]") {
  std::vector<int> node(16);
  std::iota(node.begin(), node.end(), 0);
  const std::vector<int> low(node.begin(), node.begin() + 8), high(node.begin() + 8, node.end());
  // bound to nothing: 4 ranks share 16 cores
  CHECK(share_of_first(on({node, node, node, node})) == 4);
  // bound to a core each
  CHECK(share_of_first(on({{0}, {1}, {2}})) == 1);
  // bound to sockets: 2 ranks on the one, 1 on the other
  CHECK(share_of_first(on({low, low, high})) == 4);
  CHECK(share_of_first(on({high, low, low})) == 8);
  // more ranks than cores
  CHECK(share_of_first(on({{0, 1}, {0, 1}, {0, 1}})) == 1);
  // what does not divide is rounded down: 16 / 3
  CHECK(share_of_first(on({node, node, node})) == 5);
  // three halves of a core and a whole one: not rounded down by an inexact sum
  CHECK(share_of_first(on({{0, 1, 2, 3}, {0, 1}})) == 3);
}

TEST_CASE("the ranks of a control group share its CPU quota", "[placement]") {
  const std::vector<int> node = {0, 1, 2, 3, 4, 5, 6, 7};
  CHECK(share_of_first(on({node}, {{2, "job"}})) == 2);
  // rounded to the nearest
  CHECK(share_of_first(on({node}, {{1.4, "job"}})) == 1);
  CHECK(share_of_first(on({node}, {{1.5, "job"}})) == 2);
  CHECK(share_of_first(on({node}, {{0.5, "job"}})) == 1);
  CHECK(share_of_first(on({node, node}, {{6, "job"}})) == 3);
  // more than there are cores
  CHECK(share_of_first(on({node, node}, {{64, "job"}})) == 4);
  // the smallest of the groups counts
  CHECK(share_of_first(on({node}, {{4, "job/task"}, {3, "job"}})) == 3);
  // a group each, of one with a quota of its own: 4 / 2 is less than 3
  CHECK(share_of_first({{node, {{3, "job/0"}, {4, "job"}}}, {node, {{3, "job/1"}, {4, "job"}}}}) == 2);
  // a rank elsewhere takes nothing of the quota
  CHECK(share_of_first({{{0, 1, 2, 3}, {{2, "job"}}}, {{4, 5, 6, 7}, {}}}) == 2);
}

TEST_CASE("what a quota takes is said, and only then", "[placement]") {
  const std::vector<int> node = {0, 1, 2, 3};
  const auto said = [](const std::vector<RankCores>& ranks) { return text_of_limit(ranks.front(), ranks); };
  CHECK(said(on({node})).empty());
  CHECK(said(on({node, node}, {{4, "/jobs"}})).empty());
  CHECK(said(on({node, node}, {{2.5, "/jobs"}})) ==
        "a CPU quota of 2.5 cores for 2 ranks (/jobs) limits the threads of a rank, which may run on 4 cores");
}

TEST_CASE("more threads than cores, or than a quota's, are found", "[placement]") {
  const auto found = [](const std::vector<RankCores>& ranks, int threads) {
    return text_of_crowd(ranks.front(), ranks, threads);
  };
  const std::vector<int> node = {0, 1, 2, 3};
  CHECK(found(on({node, node}), 2).empty());
  CHECK(found(on({node, node}), 3) == "2 ranks of 3 threads on 4 cores");
  CHECK(found(on({{0}, {1, 2, 3}}), 2) == "2 ranks of 2 threads on 4 cores");  // the first is bound to one
  CHECK(found(on({node}, {{2, "/jobs"}}), 2).empty());
  CHECK(found(on({node}, {{2, "/jobs"}}), 3) == "1 rank of 3 threads on a CPU quota of 2 cores");
  CHECK(found(on({node}, {{0.3, "/jobs"}}), 1).empty());  // it cannot have fewer
}

TEST_CASE("a rank reads its quotas, and has no more threads than they allow", "[placement]") {
  const ScratchFolder folder;
  const auto write = [&folder](const std::string& file, const std::string& text) {
    const std::filesystem::path path = folder.path(file);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << '\n';
  };
  write("proc/self/cgroup", "0::/a job/step");
  write("sys/fs/cgroup/a job/cpu.max", "100000 100000");
  comm::run_as_threads(2, [&folder](comm::Communicator& world) {
    Log log(world.rank(), false);
    const NodePlace place(world, folder.path());
    EXPECT(place.ranks().size() == 2);
    for (const RankCores& rank : place.ranks()) {
      EXPECT(rank.cores == cores_of_this_process());
      EXPECT(rank.quotas.size() == 1);
      EXPECT(rank.quotas.front().cores == 1);
      EXPECT(rank.quotas.front().group == folder.path("sys/fs/cgroup/a job"));
    }
    EXPECT(place_rank(world, place, 0, log).threads == 1);
    EXPECT(place_rank(world, place, 3, log).threads == 3);  // what is asked for is given
    EXPECT(place_rank(world, place, 3, log).quota_text.empty());
  });
}

TEST_CASE("a process sees no more cores than it may run on", "[placement]") {
  cpu_set_t mask;
  REQUIRE(sched_getaffinity(0, sizeof mask, &mask) == 0);
  const auto cores = cores_of_this_process();
  CHECK(!cores.empty());
  CHECK(static_cast<int>(cores.size()) <= CPU_COUNT(&mask));
}

TEST_CASE("memory, CPU and build are known", "[placement]") {
  const auto resident = resident_memory_bytes();
  std::vector<char> touched(64 << 20, 1);
  // The vector's pages count, within what the allocator had free before (1 MiB is generous for this process).
  CHECK(resident_memory_bytes() >= resident + (63 << 20));
  CHECK(peak_memory_bytes() >= resident_memory_bytes());
  CHECK(touched[touched.size() / 2] == 1);
  CHECK_FALSE(cpu_name().empty());
  CHECK(build_hash() == build_hash());
  CHECK(build_hash() != 0);
}

}  // namespace
}  // namespace unisono::session
