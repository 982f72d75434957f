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
  /// The number of ranks of the smallest node. So many ranks of each node exchange one slice of a vector each with the
  /// other nodes.
  int lanes() const;
  /// The ranks, one of each node, that exchange slice `number`.
  std::vector<int> lane(int number) const;
};

/// \param node_of a key for each rank: ranks of equal keys share memory
Topology make_topology(const std::vector<std::int64_t>& node_of, int rank);

}  // namespace unisono::comm::mpi
