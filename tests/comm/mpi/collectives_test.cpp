#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include "collectives.hpp"
#include "unisono/comm/mpi.hpp"
#include "unisono/comm/process_grid.hpp"

using namespace unisono::comm;

namespace {

unisono::comm::CommunicationSettings settings(bool shared_memory, int ranks_per_node) {
  unisono::comm::CommunicationSettings chosen;
  chosen.timeout_seconds = 30;
  chosen.shared_memory = shared_memory;
  chosen.ranks_per_node = ranks_per_node;
  return chosen;
}

}  // namespace

TEST_CASE("ranks under MPI keep the promises of a communicator", "[mpi]") {
  const bool shared_memory = GENERATE(true, false);
  // 0: all on one node. 1: each on its own. 2 with 3 ranks: nodes of 2 and 1; with 4: of 2 and 2. 3 with 4: of 3 and 1.
  const int ranks_per_node = GENERATE(0, 1, 2, 3);
  int argc = 0;
  char** argv = nullptr;
  unisono::comm::MpiSession session(argc, argv);
  const auto world = session.world(settings(shared_memory, ranks_per_node));
  for (const auto& promise : unisono::test::promises()) {
    INFO(promise.name << ", rank " << world->rank() << " of " << world->size() << ", " << ranks_per_node << " a node");
    CHECK_NOTHROW(promise.check(*world));
    world->barrier();
  }
}

namespace {

/// Segments of memory that this process shares with others.
int shared_segments() {
  std::ifstream maps("/proc/self/maps");
  int segments = 0;
  for (std::string line; std::getline(maps, line);) segments += line.find(" rw-s ") != std::string::npos ? 1 : 0;
  return segments;
}

/// Groups with memory of their own, which end on some ranks as usual and on one by what it throws.
void make_and_end_groups(Communicator& world, const GridShape& shape, int thrower) {
  struct Thrown {};
  try {
    const ProcessGrid grid(world, shape);
    const unisono::Buffer shared(1000, grid.pipeline().shared_allocator());
    const auto part = grid.pipeline().split(0, 0);
    if (world.rank() == thrower) throw Thrown{};
  } catch (const Thrown&) {
  }
}

}  // namespace

TEST_CASE("groups leave nothing behind, however they end", "[mpi]") {
  const bool shared_memory = GENERATE(true, false);
  const int ranks_per_node = GENERATE(0, 2);
  int argc = 0;
  char** argv = nullptr;
  MpiSession session(argc, argv);
  const auto world = session.world(settings(shared_memory, ranks_per_node));
  const GridShape shape{.data = world->size() % 2 == 0 ? world->size() / 2 : 1,
                        .stages = world->size() % 2 == 0 ? 2 : world->size()};
  int before = 0;
  for (int round = 0; round < 30; ++round) {
    make_and_end_groups(*world, shape, round % (world->size() + 1));
    if (round == 2) before = shared_segments();
  }
  INFO("rank " << world->rank() << " of " << world->size() << ", shared memory " << shared_memory);
  CHECK(shared_segments() == before);
}
