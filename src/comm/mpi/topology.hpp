#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace unisono::comm::mpi {

/// Which ranks of a group share memory. Ranks here are those of the group.
struct Topology {
  std::vector<std::vector<int>> nodes;  ///< the ranks of each node in ascending order; nodes by their first rank
  int node = 0;                         ///< that of this rank
  int node_rank = 0;                    ///< this rank's place in nodes[node]

  const std::vector<int>& neighbours() const { return nodes[static_cast<std::size_t>(node)]; }
  int node_size() const { return static_cast<int>(neighbours().size()); }
  bool one_node() const { return nodes.size() == 1; }
  int largest_node() const;  ///< ranks
  /// As many ranks of each node as the smallest has: they carry a part of a vector each to the other nodes.
  int lanes() const;
  /// The rank of each node that carries this part.
  std::vector<int> lane(int number) const;
};

/// \param node_of a key of the node of each rank: ranks of equal keys share memory
Topology make_topology(const std::vector<std::int64_t>& node_of, int rank);

}  // namespace unisono::comm::mpi
