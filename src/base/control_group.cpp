#include "control_group.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <vector>

namespace unisono {
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
