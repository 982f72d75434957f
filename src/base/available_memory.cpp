#include "unisono/base/available_memory.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

namespace unisono {
namespace {

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

/// The number at the start of a file; nothing if there is none ("max").
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

/// This process's control group for a controller; in version 2 the controller's name is empty.
std::string group_of(const std::string& root, const std::string& controller) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // "4:memory:/user", or "0::/user"
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    if (line.substr(first + 1, second - first - 1) == controller) return line.substr(second + 1);
  }
  return "";
}

/// The bytes that the limits of a control group and its ancestors leave. Cached file pages count as usage but can be
/// reclaimed.
std::int64_t left_by_groups(const std::string& mount, std::string group, const char* limit, const char* usage,
                            const char* cached) {
  std::int64_t left = kUnlimited;
  for (;;) {
    const std::string folder = mount + group + (group.empty() || group.back() == '/' ? "" : "/");
    if (const auto most = read_number(folder + limit)) {
      const std::int64_t used =
          read_number(folder + usage).value_or(0) - find_entry(folder + "memory.stat", cached).value_or(0);
      left = std::min(left, std::max<std::int64_t>(0, *most - std::max<std::int64_t>(0, used)));
    }
    if (group.empty() || group == "/") return left;
    group.erase(group.rfind('/'));
  }
}

}  // namespace

std::optional<std::int64_t> available_memory_bytes(const std::string& root) {
  const auto machine = find_entry(root + "/proc/meminfo", "MemAvailable:");
  if (!machine) return std::nullopt;
  const std::string mount = root + "/sys/fs/cgroup";
  const std::int64_t version2 =
      left_by_groups(mount, group_of(root, ""), "memory.max", "memory.current", "inactive_file");
  const std::int64_t version1 = left_by_groups(mount + "/memory", group_of(root, "memory"), "memory.limit_in_bytes",
                                               "memory.usage_in_bytes", "total_inactive_file");
  return std::min({1024 * *machine, version2, version1});
}

std::int64_t process_status_bytes(const std::string& word, const std::string& root) {
  return 1024 * find_entry(root + "/proc/self/status", word).value_or(0);
}

}  // namespace unisono
