#pragma once

#include <string>
#include <vector>

#include "unisono/base/resources.hpp"

namespace unisono::session {

/// The cores on which a rank may run, and how much of them the control groups that it is in may use.
struct RankCores {
  std::vector<int> cores;
  std::vector<CpuQuota> quotas;
};

/// A rank's fair share of its cores: Σ over its cores of 1 / (number of the node's ranks that may run on the core),
/// rounded down; no more than its part of any quota, cores of the quota / number of the node's ranks in that control
/// group, rounded to the nearest; at least 1. So a rank bound to cores of its own gets all of them, and unbound ranks
/// divide the node's.
/// \param ranks those of the node, this one included
int fair_share(const RankCores& rank, const std::vector<RankCores>& ranks);

/// "a CPU quota of 2 cores for 1 rank (/sys/fs/cgroup/jobs) limits …"; empty where no quota makes the share smaller.
std::string text_of_limit(const RankCores& rank, const std::vector<RankCores>& ranks);

/// "3 ranks of 1 thread on 2 cores", where so many threads a rank are more than the node has cores, or than are on a
/// quota by default; else empty.
std::string text_of_crowd(const RankCores& rank, const std::vector<RankCores>& ranks, int threads);

}  // namespace unisono::session
