#include "unisono/comm/communicator.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "unisono/base/errors.hpp"

namespace unisono::comm {
namespace {

using Catch::Matchers::Contains;

/// What ranks with these hashes throw; empty: nothing.
std::string disagreement(const std::vector<std::uint64_t>& hashes) {
  try {
    comm::run_as_threads(static_cast<int>(hashes.size()), [&](comm::Communicator& world) {
      require_same(world, "config", hashes[static_cast<std::size_t>(world.rank())], "do something");
    });
    return "";
  } catch (const LaunchError& error) {
    return error.what();
  }
}

TEST_CASE("ranks of the same hash agree", "[agreement]") {
  CHECK(disagreement({7}).empty());
  CHECK(disagreement({7, 7, 7}).empty());
}

TEST_CASE("the rank that differs from the others is named, with what to do", "[agreement]") {
  CHECK_THAT(disagreement({7, 7, 8}), Contains("the config of rank 2 on ") && Contains("differs from that of rank 0") &&
                                          Contains("do something"));
  CHECK_THAT(disagreement({8, 7, 7}), Contains("of rank 0 on ") && Contains("differs from that of rank 1"));
  CHECK_THAT(disagreement({1, 7, 2, 7}), Contains("rank 0 on ") && Contains(", rank 2 on "));
}

TEST_CASE("of two ranks the first is right", "[agreement]") {
  CHECK_THAT(disagreement({1, 2}), Contains("the config of rank 1 on ") && Contains("differs from that of rank 0"));
  CHECK_THAT(disagreement({2, 1}), Contains("the config of rank 1 on "));
}

}  // namespace
}  // namespace unisono::comm
