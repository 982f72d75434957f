#include "machine/free_memory.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <limits>

#include "unisono/base/resources.hpp"

namespace unisono::session {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

double resource_limit(int resource) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return kUnlimited;
  }
  return static_cast<double>(limit.rlim_cur);
}

}  // namespace

ProcessLimits limits_of_this_process() {
  return {.data = resource_limit(RLIMIT_DATA), .address_space = resource_limit(RLIMIT_AS)};
}

double free_memory_bytes(int ranks_of_node, const ProcessLimits& limits, const std::string& root) {
  const auto left = [&root](double limit, const char* used) {
    return limit - static_cast<double>(process_status_bytes(used, root));
  };
  const auto node = available_memory_bytes(root);
  const double share = node ? static_cast<double>(*node) / ranks_of_node : kUnlimited;
  return std::max(0.0, std::min({share, left(limits.data, "VmData:"), left(limits.address_space, "VmSize:")}));
}

}  // namespace unisono::session
