#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
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

/// The ranks of one communicator.
struct Group {
  std::uint64_t id = 0;      ///< equal on all its ranks, and unique to the group
  std::vector<int> members;  ///< ranks of the job, by rank of the group
  double timeout_seconds = 0;
  std::atomic<std::uint64_t> begun = 0;  ///< collectives that this rank has begun
};

/// What a rank waits for.
struct Place {
  static constexpr int kNobody = -1;
  const Group& group;
  std::string_view name;       ///< "allreduce_sum"
  std::uint64_t sequence = 0;  ///< the collective's number in its group, from 1; 0: a message
  int peer = kNobody;          ///< of a message: the other side's rank in the job; kNobody: several of them
};

/// Throws CommunicationError where a call of MPI has failed.
/// \param call its name, for the message
void check(int code, const char* call, const char* file = __builtin_FILE(), int line = __builtin_LINE());

}  // namespace unisono::comm::mpi
