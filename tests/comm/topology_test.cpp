#include "mpi/topology.hpp"

#include <catch2/catch.hpp>

using namespace unisono::comm;
using Ranks = std::vector<int>;

TEST_CASE("ranks of one node are neighbours in their order", "[topology]") {
  const auto topology = unisono::comm::mpi::make_topology({7, 7, 7}, 2);
  CHECK(topology.one_node());
  CHECK(topology.neighbours() == Ranks{0, 1, 2});
  CHECK(topology.node_rank == 2);
  CHECK(topology.node_size() == 3);
  CHECK(topology.lanes() == 3);
}

TEST_CASE("every node has a carrier for each lane, however its ranks are scattered", "[topology]") {
  const std::vector<std::int64_t> node_of{5, 0, 5, 0, 5, 9, 9};  // nodes of 3, 2 and 2 ranks
  const auto topology = unisono::comm::mpi::make_topology(node_of, 4);
  CHECK(topology.nodes == std::vector<Ranks>{{0, 2, 4}, {1, 3}, {5, 6}});
  CHECK(topology.node == 0);
  CHECK(topology.node_rank == 2);
  CHECK(topology.largest_node() == 3);
  CHECK(topology.lanes() == 2);
  CHECK(topology.lane(0) == Ranks{0, 1, 5});
  CHECK(topology.lane(1) == Ranks{2, 3, 6});
}

TEST_CASE("a rank that is alone on its node carries all", "[topology]") {
  const auto topology = unisono::comm::mpi::make_topology({1, 2, 1}, 1);
  CHECK(topology.node_size() == 1);
  CHECK(topology.lanes() == 1);
  CHECK(topology.lane(0) == Ranks{0, 1});
}
