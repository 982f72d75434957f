#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace unisono {

/// Bytes that processes of this node can still allocate: the kernel's MemAvailable, or what the limit of this process's
/// control group leaves, if that is less. Nothing where the kernel does not say.
/// \param root prefix of /proc and /sys, for tests
std::optional<std::int64_t> available_memory_bytes(const std::string& root = "");

/// The bytes behind a word such as "VmRSS:" at the start of a line of /proc/self/status; 0 if there is none.
std::int64_t process_status_bytes(const std::string& word, const std::string& root = "");

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
