#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace unisono::comm::mpi {

/// One process of the job.
struct Member {
  std::string host;
  int pid = 0;
  int node = 0;  ///< lowest rank of the job that shares memory with it
};

/// The processes of the job, by rank of MPI_COMM_WORLD.
class Roster {
 public:
  /// Collective.
  Roster();

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  const Member& operator[](int rank) const { return members_[static_cast<std::size_t>(rank)]; }
  /// Whether this node has fewer cores than ranks: then a rank that waits must let others run.
  bool oversubscribed() const { return oversubscribed_; }
  /// "rank 1 (node3, pid 4711": the caller adds what else it knows, and the bracket
  std::string name(int rank) const;

 private:
  int rank_ = 0;
  std::vector<Member> members_;
  bool oversubscribed_ = false;
};

}  // namespace unisono::comm::mpi
