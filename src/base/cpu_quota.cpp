#include "unisono/base/cpu_quota.hpp"

#include <algorithm>
#include <sstream>
#include <thread>

#include "control_group.hpp"

namespace unisono {
namespace {

/// Adds the quota that a text such as "150000 100000" (microseconds of CPU time, in a period of so many) gives a group;
/// "max", or -1 in version 1, is none.
void add(std::vector<CpuQuota>& quotas, const std::string& text, const std::string& group) {
  std::istringstream words(text);
  double time = 0, period = 0;
  if (words >> time >> period && time > 0 && period > 0) quotas.push_back({.cores = time / period, .group = group});
}

}  // namespace

std::vector<CpuQuota> cpu_quotas(const std::string& root) {
  const std::string memberships = text_of_file(root + "/proc/self/cgroup"), mount = root + "/sys/fs/cgroup";
  std::vector<CpuQuota> quotas;
  for (const auto& group : control_groups(memberships, "", mount)) add(quotas, text_of_file(group / "cpu.max"), group);
  for (const auto& group : control_groups(memberships, "cpu", mount)) {
    add(quotas, text_of_file(group / "cpu.cfs_quota_us") + text_of_file(group / "cpu.cfs_period_us"), group);
  }
  return quotas;
}

int threads_of_quota(double cores) { return std::max(1, static_cast<int>(cores + 0.5)); }

int usable_cpus() {
  int cpus = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));  // it heeds the affinity
  for (const CpuQuota& quota : cpu_quotas()) cpus = std::min(cpus, threads_of_quota(quota.cores));
  return cpus;
}

}  // namespace unisono
