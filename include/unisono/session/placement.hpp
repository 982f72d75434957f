#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unisono/base/log.hpp"
#include "unisono/base/resources.hpp"
#include "unisono/comm/communicator.hpp"

namespace unisono::session {

/// The cores on which a rank may run, and how much of them the rank's control groups may use.
struct RankCores {
  std::vector<int> cores;
  std::vector<CpuQuota> quotas;
};

/// A rank's fair share of its cores: Σ over its cores of 1 / (number of the node's ranks that may run on the core),
/// rounded down; no more than its part of any quota, cores of the quota / number of the node's ranks in that control
/// group, rounded to the nearest; at least 1. So a rank bound to cores of its own gets all of them, and unbound ranks
/// divide the node's.
/// \param ranks the ranks of the node, this one included
int fair_share(const RankCores& rank, const std::vector<RankCores>& ranks);

/// How a quota limits a rank's fair share: "a CPU quota of 2 cores for 1 rank (/sys/fs/cgroup/jobs) limits …"; empty
/// where no quota makes the share smaller.
std::string text_of_limit(const RankCores& rank, const std::vector<RankCores>& ranks);

/// A warning about too many threads: "3 ranks of 1 thread on 2 cores", where so many threads a rank are more than the
/// node has cores, or than are on a quota by default; else empty.
std::string text_of_crowd(const RankCores& rank, const std::vector<RankCores>& ranks, int threads);

/// The cores on which this process may run, each named by the first of its hardware threads.
std::vector<int> cores_of_this_process();

/// How many cores and threads a rank has.
struct Placement {
  int cores = 1;                ///< cores on which this rank may run
  int threads = 1;              ///< threads that the rank uses
  std::string quota_text = {};  ///< how a quota limits the rank's default number of threads; empty: none does
};

/// A rank's number on its node and its cores, among all ranks of a job. These are the same in every group, so groups
/// that run at the same time get different cores and GPUs, if the node has enough.
class NodePlace {
 public:
  /// Collective over all ranks of the job. \param root prefix of /proc and /sys, for tests of quotas
  explicit NodePlace(comm::Communicator& job, const std::string& root = "");

  int number() const { return number_; }  ///< this rank's number on its node
  const RankCores& own() const { return own_; }
  /// Every rank of the job on this node, including this one.
  const std::vector<RankCores>& ranks() const { return ranks_; }
  int fair_share() const { return session::fair_share(own_, ranks_); }

 private:
  int number_;
  RankCores own_;
  std::vector<RankCores> ranks_;
};

/// Chooses this rank's number of threads; warns where the node's ranks together have more threads than cores, or than
/// cores of a quota. Collective over the group. \param wanted threads; 0: the fair share \param beside additional
/// threads of this rank that need a core \param key the key of the config that says how many are wanted
Placement place_rank(comm::Communicator& group, const NodePlace& place, std::int64_t wanted, Log& log, int beside = 0,
                     std::string_view key = "train.threads");

/// This machine's CPU: "AMD EPYC 9R14", or "unknown CPU".
std::string cpu_name();

/// Hash of the running binary's file, computed once; equal exactly for identical binaries.
std::uint64_t build_hash();

/// The process's largest resident memory so far. Memory shared by ranks counts in each of them.
std::int64_t peak_memory_bytes();
/// The process's resident memory now. Memory shared by ranks counts in each of them.
std::int64_t resident_memory_bytes();

}  // namespace unisono::session
