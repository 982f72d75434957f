#include "thread_limits.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <vector>

#include "control_group.hpp"

namespace unisono {
namespace {

namespace fs = std::filesystem;

/// The number in a file; empty where there is no such file or it says "max".
std::optional<std::int64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

/// Empty where there is no limit.
std::optional<std::uint64_t> soft_limit(__rlimit_resource resource) {
  rlimit limit = {};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

}  // namespace

std::string cgroup_limit(const std::string& memberships, const std::string& root) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  std::string where;
  auto groups = control_groups(memberships, "pids", root);
  if (groups.empty()) groups = control_groups(memberships, "", root);
  for (const fs::path& group : groups) {
    const fs::path file = group / "pids.max";
    const auto limit = number_in(file);
    if (!limit || *limit >= least) continue;
    least = *limit;
    where = file.string();
  }
  if (where.empty()) return "";
  return fmt::format("the control group allows {} processes and threads ({})", least, where);
}

std::string thread_limits() {
  constexpr std::uint64_t kMiB = 1 << 20;
  std::vector<std::string> limits;
  if (const auto user = soft_limit(RLIMIT_NPROC)) {
    limits.push_back(fmt::format("this user may have {} processes and threads (ulimit -u)", *user));
  }
  if (const auto group = cgroup_limit(text_of_file("/proc/self/cgroup"), "/sys/fs/cgroup"); !group.empty()) {
    limits.push_back(group);
  }
  if (const auto memory = soft_limit(RLIMIT_AS)) {
    limits.push_back(fmt::format("this process may address {} MiB (ulimit -v)", *memory / kMiB));
  }
  if (limits.empty()) {
    if (const auto system = number_in("/proc/sys/kernel/threads-max")) {
      limits.push_back(fmt::format("the system allows {} threads (/proc/sys/kernel/threads-max)", *system));
    }
  }
  return fmt::format("{}", fmt::join(limits, ", "));
}

}  // namespace unisono
