#include <catch2/catch.hpp>

#include "collectives.hpp"
#include "unisono/comm/mpi.hpp"

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
