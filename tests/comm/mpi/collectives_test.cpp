#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include "collectives.hpp"
#include "unisono/base/clock.hpp"
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

TEST_CASE("a rank that is asked to notes when it has its messages", "[mpi]") {
  int argc = 0;
  char** argv = nullptr;
  MpiSession session(argc, argv);
  const auto world = session.world(settings(true, 0));
  const auto turned = world->split(0, -world->rank());  // the ranks in reverse order
  const int size = world->size(), to = (turned->rank() + 1) % size, from = (turned->rank() + size - 1) % size;
  const auto pass_on = [&](int tag) {
    std::byte sent{}, received{};
    const auto receive = turned->start_receive(std::span(&received, 1), from, tag);
    turned->send(std::span(&sent, 1), to, tag);
    receive->wait();
  };
  pass_on(1);
  const double zero = unisono::steady_clock().seconds();
  world->begin_arrivals(zero);
  pass_on(2);
  pass_on(3);
  const double end = unisono::steady_clock().seconds() - zero;
  world->gather_joined(std::vector<int>{1});  // of a collective: not noted
  const std::vector<Arrival> found = world->take_arrivals();
  pass_on(4);
  CHECK(world->take_arrivals().empty());
  REQUIRE(found.size() == 2);
  for (std::size_t i = 0; i < found.size(); ++i) {
    CHECK(found[i].tag == static_cast<int>(i) + 2);
    CHECK(found[i].to == world->rank());
    CHECK(found[i].from == (world->rank() + 1) % size);
    CHECK(found[i].seconds >= (i == 0 ? 0 : found[0].seconds));
    CHECK(found[i].seconds <= end);
  }
}
