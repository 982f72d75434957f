#include "thread_limits.hpp"

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

/// The folder, below the cgroup root, of the control group that limits processes: cgroup version 1 has a hierarchy
/// "pids"; version 2 has a single one, whose line begins with "0::".
std::string group_folder(const std::string& memberships) {
  std::string folder;
  std::istringstream lines(memberships);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("0::") && folder.empty()) folder = line.substr(3);
    const auto pids = line.find(":pids:");
    if (pids != std::string::npos) folder = "/pids" + line.substr(pids + 6);
  }
  return folder;
}

std::string text_of_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

std::string cgroup_limit(const std::string& memberships, const std::string& root) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  std::string where;
  for (fs::path group = group_folder(memberships); group.has_relative_path(); group = group.parent_path()) {
    const fs::path file = fs::path(root) / group.relative_path() / "pids.max";
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
