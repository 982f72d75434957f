#include "unisono/base/resources.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <thread>

namespace unisono {
namespace {

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

/// The number at the start of a file; nothing where there is no such file, or no number ("max").
std::optional<std::int64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

/// The number after a word at the start of a line; nothing if there is none.
std::optional<std::int64_t> find_entry(const std::string& path, const std::string& word) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first;
    std::int64_t value = 0;
    if (words >> first >> value && first == word) return value;
  }
  return std::nullopt;
}

/// The files of a version of control groups.
struct GroupFiles {
  const char* controller;
  const char *limit, *usage;
  const char* cached;  ///< an entry of memory.stat
};

/// The bytes that the limits of this process's control group and its ancestors leave. Cached file pages count as usage
/// but can be reclaimed.
std::int64_t left_by_groups(const std::string& root, const GroupFiles& files) {
  std::int64_t left = kUnlimited;
  const std::string memberships = text_of_file(root + "/proc/self/cgroup");
  for (const auto& group : control_groups(memberships, files.controller, root + "/sys/fs/cgroup")) {
    const auto most = read_number(group / files.limit);
    if (!most) continue;
    const std::int64_t used =
        read_number(group / files.usage).value_or(0) - find_entry(group / "memory.stat", files.cached).value_or(0);
    left = std::min(left, std::max<std::int64_t>(0, *most - std::max<std::int64_t>(0, used)));
  }
  return left;
}

/// Adds the quota that a text such as "150000 100000" (microseconds of CPU time, in a period of so many) gives a group;
/// "max", or -1 in version 1, is none.
void add(std::vector<CpuQuota>& quotas, const std::string& text, const std::string& group) {
  std::istringstream words(text);
  double time = 0, period = 0;
  if (words >> time >> period && time > 0 && period > 0) quotas.push_back({.cores = time / period, .group = group});
}

}  // namespace

std::optional<std::int64_t> available_memory_bytes(const std::string& root) {
  const auto machine = find_entry(root + "/proc/meminfo", "MemAvailable:");
  if (!machine) return std::nullopt;
  const std::int64_t version2 = left_by_groups(
      root, {.controller = "", .limit = "memory.max", .usage = "memory.current", .cached = "inactive_file"});
  const std::int64_t version1 = left_by_groups(root, {.controller = "memory",
                                                      .limit = "memory.limit_in_bytes",
                                                      .usage = "memory.usage_in_bytes",
                                                      .cached = "total_inactive_file"});
  return std::min({1024 * *machine, version2, version1});
}

std::int64_t process_status_bytes(const std::string& word, const std::string& root) {
  return 1024 * find_entry(root + "/proc/self/status", word).value_or(0);
}

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

namespace {

namespace fs = std::filesystem;

/// Whether `wanted` is one of the names in "cpu,cpuacct"; version 2 has the empty list, which is "".
bool names(const std::string& controllers, const std::string& wanted) {
  if (controllers.empty() || wanted.empty()) return controllers == wanted;
  return ("," + controllers + ",").find("," + wanted + ",") != std::string::npos;
}

/// The path below the controller's hierarchy: "/jobs/one" of the line "4:cpu,cpuacct:/jobs/one".
std::optional<fs::path> path_in_hierarchy(const std::string& memberships, const std::string& controller) {
  std::istringstream lines(memberships);
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    if (names(line.substr(first + 1, second - first - 1), controller)) return line.substr(second + 1);
  }
  return {};
}

/// Empty where there is no limit.
std::optional<std::uint64_t> soft_limit(__rlimit_resource resource) {
  rlimit limit = {};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

}  // namespace

std::vector<fs::path> control_groups(const std::string& memberships, const std::string& controller,
                                     const fs::path& root) {
  const auto path = path_in_hierarchy(memberships, controller);
  if (!path) return {};
  const fs::path hierarchy = controller.empty() ? root : root / controller;
  std::vector<fs::path> folders;
  for (fs::path group = path->relative_path(); !group.empty(); group = group.parent_path()) {
    folders.push_back(hierarchy / group);
  }
  folders.push_back(hierarchy);
  return folders;
}

std::string text_of_file(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string cgroup_limit(const std::string& memberships, const std::string& root) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  std::string where;
  auto groups = control_groups(memberships, "pids", root);
  if (groups.empty()) groups = control_groups(memberships, "", root);
  for (const fs::path& group : groups) {
    const fs::path file = group / "pids.max";
    const auto limit = read_number(file);
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
    if (const auto system = read_number("/proc/sys/kernel/threads-max")) {
      limits.push_back(fmt::format("the system allows {} threads (/proc/sys/kernel/threads-max)", *system));
    }
  }
  return fmt::format("{}", fmt::join(limits, ", "));
}

}  // namespace unisono
