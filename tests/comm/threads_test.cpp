#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "collectives.hpp"
#include "expect.hpp"
#include "unisono/base/errors.hpp"

using namespace unisono::comm;
using Catch::Matchers::Contains;

TEST_CASE("ranks in threads keep the promises of a communicator", "[threads]") {
  const auto& promise = GENERATE(from_range(unisono::test::promises()));
  const int ranks = GENERATE(1, 2, 3, 4, 5);
  const int ranks_per_node = GENERATE(0, 2);
  INFO(promise.name << ", on " << ranks << " ranks, " << ranks_per_node << " a node");
  CHECK_NOTHROW(unisono::comm::run_as_threads(ranks, promise.check, 60, ranks_per_node));
}

TEST_CASE("a group knows which of its ranks share a node", "[threads]") {
  // Ranks 0 and 1 are on one node, 2 and 3 on another. The group 3, 1, 0 meets the latter first.
  const auto body = [](unisono::comm::Communicator& world) {
    EXPECT(world.node() == world.rank() / 2);
    EXPECT(world.node_rank() == world.rank() % 2);
    const auto group = world.split(world.rank() == 2 ? 1 : 0, -world.rank());
    EXPECT(group->node() == (world.rank() < 2 ? 1 : 0));
    if (world.rank() == 2) EXPECT(group->node() == 0);
    EXPECT(group->node_size() == (world.rank() < 2 ? 2 : 1));
    EXPECT(group->node_rank() == (world.rank() == 0 ? 1 : 0));
  };
  CHECK_NOTHROW(unisono::comm::run_as_threads(4, body, 60, 2));
}

TEST_CASE("a rank that is alone keeps the promises of a communicator", "[self]") {
  const auto& promise = GENERATE(from_range(unisono::test::promises()));
  INFO(promise.name);
  const auto self = unisono::comm::make_self_communicator();
  CHECK_NOTHROW(promise.check(*self));
}

TEST_CASE("a send completes only when it is received", "[threads]") {
  std::atomic<bool> receives = false, too_early = false;
  unisono::comm::run_as_threads(2, [&](unisono::comm::Communicator& communicator) {
    std::int32_t number = 7;
    const auto bytes = std::as_writable_bytes(std::span(&number, 1));
    if (communicator.rank() == 0) {
      communicator.send(bytes, 1, 0);
      if (!receives) too_early = true;
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      receives = true;
      communicator.receive(bytes, 0, 0);
    }
  });
  CHECK_FALSE(too_early);
}

TEST_CASE("two ranks that send to each other first are stopped and named", "[threads]") {
  const auto both_send = [](unisono::comm::Communicator& communicator) {
    std::int32_t number = 0;
    const auto bytes = std::as_writable_bytes(std::span(&number, 1));
    communicator.send(bytes, 1 - communicator.rank(), 0);
    communicator.receive(bytes, 1 - communicator.rank(), 0);
  };
  CHECK_THROWS_WITH(unisono::comm::run_as_threads(2, both_send, 0.2),
                    Contains("did not arrive at receive within 0.2 s"));
}

TEST_CASE("what one rank throws ends all, and is what the caller gets", "[threads]") {
  std::atomic<int> peers_failed = 0;
  const auto body = [&](unisono::comm::Communicator& communicator) {
    if (communicator.rank() == 1) throw unisono::DataError("a broken file");
    try {
      communicator.barrier();
    } catch (const unisono::comm::PeerFailure& failure) {
      if (std::string(failure.what()) == "rank 1 failed: a broken file") ++peers_failed;
      throw;
    }
  };
  CHECK_THROWS_AS(unisono::comm::run_as_threads(4, body), unisono::DataError);
  CHECK(peers_failed == 3);
}

TEST_CASE("a rank that ended early is named at once by those that wait for it", "[threads]") {
  const auto body = [](unisono::comm::Communicator& communicator) {
    communicator.set_step(12);
    if (communicator.rank() != 2) communicator.barrier();
  };
  CHECK_THROWS_WITH(unisono::comm::run_as_threads(3, body), "rank 2 (step 12) ended without taking part in barrier");
}

TEST_CASE("a rank that does not arrive in time is named with its step", "[threads]") {
  const auto body = [](unisono::comm::Communicator& communicator) {
    communicator.set_step(5);
    if (communicator.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(400));
    communicator.barrier();
  };
  CHECK_THROWS_WITH(unisono::comm::run_as_threads(3, body, 0.1),
                    "rank 1 (step 5) did not arrive at barrier within 0.1 s");
}

TEST_CASE("different collectives at the same place are an error", "[threads]") {
  const auto body = [](unisono::comm::Communicator& communicator) {
    if (communicator.rank() == 0) {
      communicator.barrier();
    } else {
      communicator.sum(1.0);
    }
  };
  CHECK_THROWS_WITH(unisono::comm::run_as_threads(2, body), Contains("all ranks must call the same collectives"));
}

TEST_CASE("different lengths in one collective are an error", "[threads]") {
  const auto body = [](unisono::comm::Communicator& communicator) {
    std::vector<float> values(static_cast<std::size_t>(3 + communicator.rank()));
    communicator.allreduce_sum(values);
  };
  CHECK_THROWS_WITH(unisono::comm::run_as_threads(2, body), Contains("different lengths"));
}

TEST_CASE("a started operation that is abandoned ends all ranks", "[threads]") {
  const auto body = [](unisono::comm::Communicator& communicator) {
    std::vector<float> values(10);
    const auto request = communicator.start_allreduce_sum(values);
    if (communicator.rank() == 0) throw std::runtime_error("thrown between start and wait");
    request->wait();
  };
  const auto slow_peer = [&](unisono::comm::Communicator& communicator) {
    if (communicator.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    body(communicator);
  };
  CHECK_THROWS_WITH(unisono::comm::run_as_threads(2, slow_peer), "thrown between start and wait");
}

TEST_CASE("slices cover a vector without gaps, in sizes that differ by one at most", "[communicator]") {
  const unisono::Index n = GENERATE(0, 1, 5, 16, 1001, unisono::Index{1} << 62);
  const int ranks = GENERATE(1, 2, 3, 7, 1000);
  unisono::Index last = 0;
  for (int r = 0; r < ranks; ++r) {
    const unisono::comm::Slice slice = unisono::comm::slice_of(n, r, ranks);
    REQUIRE(slice.first == last);
    REQUIRE(slice.last - slice.first >= n / ranks);
    REQUIRE(slice.last - slice.first <= n / ranks + 1);
    last = slice.last;
  }
  CHECK(last == n);
}
