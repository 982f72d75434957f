#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unisono/base/log.hpp"
#include "unisono/comm/communicator.hpp"

namespace unisono::experiment {

/// The cores that this process may run on. A core is named by the first of its hardware threads.
std::vector<int> cores_of_this_process();

/// A rank's fair share of its cores: Σ over them of 1 / (ranks of the node that may run on it), rounded down, at
/// least 1. So a rank that is bound alone has all its cores, and ranks that are not bound share the node's.
/// \param ranks the cores of every rank of the node, this one included
int fair_share(const std::vector<int>& cores, const std::vector<std::vector<int>>& ranks);

struct Placement {
  int cores = 1;    ///< that this rank may run on
  int threads = 1;  ///< that it runs
};

/// A rank's place on its node, among all ranks of a job. Whatever group of them it runs in, it keeps this place: groups
/// that run side by side get cores and GPUs of their own, as far as the node has enough.
class NodePlace {
 public:
  /// Collective over all ranks of the job.
  explicit NodePlace(comm::Communicator& job);

  int number() const { return number_; }  ///< of this rank on its node
  const std::vector<int>& cores() const { return cores_; }
  /// Of every rank of the job on this node, this one included.
  const std::vector<std::vector<int>>& cores_of_ranks() const { return ranks_; }

 private:
  int number_;
  std::vector<int> cores_;
  std::vector<std::vector<int>> ranks_;
};

/// Chooses this rank's number of threads; warns where the node's ranks together have more threads than cores.
/// Collective over the group. \param wanted threads; 0: the fair share \param beside threads of this rank that are to
/// have a core of it, too
Placement place_rank(comm::Communicator& group, const NodePlace& place, std::int64_t wanted, Log& log, int beside = 0);

/// "AMD EPYC 9R14": of this machine, or "unknown CPU".
std::string cpu_name();

/// Hash of the running binary, read once: equal builds are equal bytes.
std::uint64_t build_hash();

/// The most memory that this process ever had resident, and has now. Memory shared with other ranks counts in each.
std::int64_t peak_memory_bytes();
std::int64_t resident_memory_bytes();

}  // namespace unisono::experiment
