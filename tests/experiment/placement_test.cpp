#include "machine/placement.hpp"

#include <sched.h>

#include <catch2/catch.hpp>
#include <numeric>

namespace unisono::experiment {
namespace {

TEST_CASE("a rank's share of the cores is fair, however the launcher bound the ranks", "[placement]") {
  std::vector<int> node(16);
  std::iota(node.begin(), node.end(), 0);
  const std::vector<int> low(node.begin(), node.begin() + 8), high(node.begin() + 8, node.end());
  // bound to nothing: 4 ranks share 16 cores
  CHECK(fair_share(node, {node, node, node, node}) == 4);
  // bound to a core each
  CHECK(fair_share({0}, {{0}, {1}, {2}}) == 1);
  // bound to sockets: 2 ranks on the one, 1 on the other
  CHECK(fair_share(low, {low, low, high}) == 4);
  CHECK(fair_share(high, {low, low, high}) == 8);
  // more ranks than cores
  CHECK(fair_share({0, 1}, {{0, 1}, {0, 1}, {0, 1}}) == 1);
  // what does not divide is rounded down: 16 / 3
  CHECK(fair_share(node, {node, node, node}) == 5);
  // three halves of a core and a whole one: not rounded down by an inexact sum
  CHECK(fair_share({0, 1, 2, 3}, {{0, 1, 2, 3}, {0, 1}}) == 3);
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
}  // namespace unisono::experiment
