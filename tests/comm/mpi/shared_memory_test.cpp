#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "mpi/window_operations.hpp"
#include "unisono/comm/buckets.hpp"
#include "unisono/comm/mpi.hpp"

using namespace unisono::comm;
using Catch::Matchers::Contains;

namespace {

/// A session on the MPI that main has initialised, and its world.
struct World {
  explicit World(const unisono::comm::CommunicationSettings& settings = {})
      : communicator(session.world(settings, [this](const std::string& text) { warnings.push_back(text); })) {}

  int argc = 0;
  char** argv = nullptr;
  unisono::comm::MpiSession session{argc, argv};
  std::vector<std::string> warnings;
  std::unique_ptr<unisono::comm::Communicator> communicator;
};

bool is_shared(unisono::comm::Communicator& communicator, unisono::MutableView span) {
  return dynamic_cast<unisono::comm::mpi::SharedAllocator&>(communicator.shared_allocator()).find(span).has_value();
}

bool is_on_one_node(const unisono::comm::Communicator& communicator) {
  return communicator.node_size() == communicator.size();
}

bool has_room() { return unisono::comm::mpi::SharedWindow::room_bytes() > (std::size_t{1} << 30); }

}  // namespace

TEST_CASE("ranks of a node get a window, where there is room; all others are told why not", "[shared]") {
  World world;
  unisono::comm::Communicator& communicator = *world.communicator;
  unisono::Buffer buffer(1000, communicator.shared_allocator());
  if (!is_on_one_node(communicator)) return;
  const bool expected = communicator.size() > 1 && has_room();
  CHECK(is_shared(communicator, buffer.view()) == expected);
  CHECK(is_shared(communicator, buffer.view().subspan(999)) == expected);
  std::vector<float> plain(10);
  CHECK_FALSE(is_shared(communicator, plain));
  CHECK((communicator.allocate_on_node(1000) != nullptr) == (communicator.size() == 1 || has_room()));
  const bool is_told = communicator.size() > 1 && communicator.node_rank() == 0 && !has_room();
  CHECK(world.warnings.size() == (is_told ? 1 : 0));
  if (is_told) CHECK_THAT(world.warnings.front(), Contains("no room for shared memory in"));
}

TEST_CASE("a window that is too large for the node becomes plain memory on all ranks, aloud", "[shared]") {
  World world;
  unisono::comm::Communicator& communicator = *world.communicator;
  if (communicator.size() == 1 || !is_on_one_node(communicator) || !has_room()) return;
  // Half of the room for each rank, and a little more: all together have none. Zeroed plain memory of this size would
  // be touched, so only the one copy per node is asked for.
  const std::size_t bytes = unisono::comm::mpi::SharedWindow::room_bytes() + (std::size_t{64} << 20);
  const auto agreed = static_cast<std::size_t>(communicator.max(static_cast<std::int64_t>(bytes)));
  CHECK(communicator.allocate_on_node(agreed) == nullptr);
  CHECK(world.warnings.size() == (communicator.node_rank() == 0 ? 1 : 0));
  CHECK(communicator.sum(1.0) == communicator.size());  // and nobody hangs
}

TEST_CASE("without shared memory nothing is a window", "[shared]") {
  unisono::comm::CommunicationSettings settings;
  settings.shared_memory = false;
  World world(settings);
  unisono::Buffer buffer(1000, world.communicator->shared_allocator());
  CHECK_FALSE(is_shared(*world.communicator, buffer.view()));
  CHECK(world.warnings.empty());
}

TEST_CASE("ranks that ask for different sizes are told", "[shared]") {
  World world;
  unisono::comm::Communicator& communicator = *world.communicator;
  if (communicator.size() == 1 || !is_on_one_node(communicator) || !has_room()) return;
  const auto bytes = static_cast<std::size_t>(1000 + communicator.rank());
  CHECK_THROWS_WITH(communicator.shared_allocator().allocate(bytes), Contains("different sizes: 1000 to"));
}

TEST_CASE("memory that all have given back is freed at the next allocation", "[shared]") {
  World world;
  unisono::comm::Communicator& communicator = *world.communicator;
  if (communicator.size() == 1 || !is_on_one_node(communicator) || !has_room()) return;
  constexpr unisono::Index kFloats = unisono::Index{8} << 20;  // 32 MiB
  constexpr int kRounds = 12;
  const auto before = static_cast<std::int64_t>(unisono::comm::mpi::SharedWindow::room_bytes());
  for (int round = 0; round < kRounds; ++round) unisono::Buffer buffer(kFloats, communicator.shared_allocator());
  const std::int64_t taken = before - static_cast<std::int64_t>(unisono::comm::mpi::SharedWindow::room_bytes());
  // One window may still be there, and others use the file system, too: a leak would take all of the rounds.
  CHECK(taken < kRounds / 2 * kFloats * 4 * communicator.node_size());
}

TEST_CASE("on one node, waiting for a straggler is told apart from the transfer", "[shared][buckets]") {
  constexpr double kDelay = 0.3;
  World world;
  unisono::comm::Communicator& communicator = *world.communicator;
  if (communicator.size() == 1 || !is_on_one_node(communicator) || !has_room()) return;
  unisono::Buffer gradient(100'000, communicator.shared_allocator());
  unisono::comm::GradientBuckets buckets(communicator, gradient.view(), 1 << 16);
  const bool is_late = communicator.rank() == communicator.size() - 1;
  communicator.barrier();
  if (is_late) usleep(static_cast<unsigned>(kDelay * 1e6));
  const unisono::Stopwatch watch;
  buckets.ready(0, 100'000);
  buckets.finish();
  CHECK(buckets.straggler_wait_seconds() + buckets.exposed_seconds() <= watch.seconds());
  if (is_late) {
    CHECK(buckets.straggler_wait_seconds() < kDelay / 2);
  } else {
    CHECK(buckets.straggler_wait_seconds() > kDelay / 2);
    CHECK(buckets.exposed_seconds() < kDelay / 2);
  }
}
