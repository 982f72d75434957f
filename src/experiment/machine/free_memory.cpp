#include "machine/free_memory.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>

namespace unisono::experiment {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

std::optional<std::string> read_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) return {};
  return std::string(std::istreambuf_iterator<char>(file), {});
}

double resource_limit(int resource) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return kNone;
  }
  return static_cast<double>(limit.rlim_cur);
}

/// The number that follows a word at the start of a line, as in "VmData:  1234 kB".
std::optional<double> number_after(const std::string& text, const std::string& word) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(word)) continue;
    std::istringstream rest(line.substr(word.size()));
    double number = 0;
    if (rest >> number) return number;
  }
  return {};
}

/// A file that holds one number; nothing for others, such as "max".
std::optional<double> number_in(const MemoryFiles& files, const std::string& path) {
  const auto text = files.read(path);
  return text ? number_after(*text, "") : std::nullopt;
}

double kibibytes(const MemoryFiles& files, const std::string& path, const std::string& word, double otherwise) {
  const auto text = files.read(path);
  const auto number = text ? number_after(*text, word) : std::nullopt;
  return number ? 1024 * *number : otherwise;
}

/// What is left of one control group; caches count as free.
double left_of_group(const MemoryFiles& files, const std::string& limit, const std::string& used,
                     const std::string& statistics) {
  const auto most = number_in(files, limit), now = number_in(files, used);
  if (!most || !now || *most >= 0x1p60) return kNone;
  const auto text = files.read(statistics);
  const double cache = text ? number_after(*text, "inactive_file ").value_or(0) : 0;
  return std::max(0.0, *most - std::max(0.0, *now - cache));
}

/// The path of this process's group in a hierarchy: the line "0::/path", or "5:memory:/path".
std::optional<std::string> group_path(const MemoryFiles& files, const std::string& hierarchy) {
  std::istringstream lines(files.read("/proc/self/cgroup").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':'), second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos || line.substr(first + 1, second - first - 1) != hierarchy) continue;
    return line.substr(second + 1);
  }
  return {};
}

/// The least of this process's group and those above it, in both versions of control groups.
double left_of_groups(const MemoryFiles& files) {
  double least = kNone;
  const auto climb = [&](const std::string& root, std::string path, const auto& left_of) {
    for (;; path.resize(path.find_last_of('/'))) {
      while (path.ends_with('/')) path.pop_back();
      least = std::min(least, left_of(root + path));
      if (path.find('/') == std::string::npos) return;
    }
  };
  climb("/sys/fs/cgroup", group_path(files, "").value_or(""), [&](const std::string& group) {
    return left_of_group(files, group + "/memory.max", group + "/memory.current", group + "/memory.stat");
  });
  climb("/sys/fs/cgroup/memory", group_path(files, "memory").value_or(""), [&](const std::string& group) {
    return left_of_group(files, group + "/memory.limit_in_bytes", group + "/memory.usage_in_bytes",
                         group + "/memory.stat");
  });
  return least;
}

}  // namespace

MemoryFiles memory_files_of_this_process() {
  return {
      .read = read_file, .data_limit = resource_limit(RLIMIT_DATA), .address_space_limit = resource_limit(RLIMIT_AS)};
}

double free_memory_bytes(const MemoryFiles& files, int ranks_of_node) {
  constexpr const char* kStatus = "/proc/self/status";
  const double node = kibibytes(files, "/proc/meminfo", "MemAvailable:", kNone);
  const double data = files.data_limit - kibibytes(files, kStatus, "VmData:", 0);
  const double space = files.address_space_limit - kibibytes(files, kStatus, "VmSize:", 0);
  return std::max(0.0, std::min({std::min(node, left_of_groups(files)) / ranks_of_node, data, space}));
}

}  // namespace unisono::experiment
