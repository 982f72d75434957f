#pragma once

#include <string>
#include <vector>

namespace unisono {

/// How much CPU time a control group may use.
struct CpuQuota {
  double cores = 0;   ///< 1.5: 150 ms in every 100 ms, by all processes of the group together
  std::string group;  ///< its folder: "/sys/fs/cgroup/jobs/one"
};

/// The quotas of this process's control group and of its ancestors, the innermost first; empty where there are none.
/// Version 2 of control groups writes them to cpu.max, version 1 to cpu.cfs_quota_us and cpu.cfs_period_us.
/// \param root prefix of /proc and /sys, for tests
std::vector<CpuQuota> cpu_quotas(const std::string& root = "");

/// The threads for a quota, or a part of one: rounded to the nearest, at least 1. Two threads on 1.5 cores use all of
/// them, a thread on 1.5 does not; but who uses the quota up stands still until its next period, and so gains nothing
/// on 1.2.
int threads_of_quota(double cores);

/// How many CPUs this process may use: those that it may run on, and no more than its smallest quota; at least 1.
int usable_cpus();

}  // namespace unisono
