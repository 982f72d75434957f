#include "address_space.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>

#include "unisono/base/errors.hpp"

namespace unisono::comm::mpi {
namespace {

constexpr std::uint64_t kMebibyte = 1 << 20;
constexpr std::uint64_t kNeeded = 192 * kMebibyte;  // Open MPI 4.1 takes 165 to 180 MiB on one host

/// What this process has mapped; 0 where the system does not say.
std::uint64_t mapped_bytes() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

void require_address_space() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  const std::uint64_t needed = mapped_bytes() + kNeeded;
  if (limit.rlim_cur >= needed) return;
  throw DeviceError(fmt::format(
      "this process may address only {} MiB of memory (ulimit -v), but needs {} MiB to start MPI; raise the "
      "limit, or remove it with 'ulimit -v unlimited'",
      limit.rlim_cur / kMebibyte, needed / kMebibyte));
}

}  // namespace unisono::comm::mpi
