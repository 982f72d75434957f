#include "leftovers.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <filesystem>
#include <string_view>

namespace unisono::comm::mpi {
namespace {

namespace fs = std::filesystem;

bool is_in_memory(const std::string& folder) {
  struct statfs status = {};
  return statfs(folder.c_str(), &status) == 0 && status.f_type == TMPFS_MAGIC;
}

bool is_segment(std::string_view name) { return name.starts_with("vader_segment.") || name.starts_with("osc_sm."); }

/// Calls visit(path) for every segment in the folder.
template <typename Visit>
void for_each_segment(const std::string& folder, Visit visit) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (is_segment(entry.path().filename().string())) visit(entry.path());
  }
}

/// The kernel grants a lease for writing on a file that nobody else has open or mapped, in whatever container.
bool nobody_uses(int file) {
  fcntl(file, F_SETSIG, SIGURG);  // whoever opens it meanwhile waits for the lease's end; SIGURG is ignored
  return fcntl(file, F_SETLEASE, F_WRLCK) == 0;
}

void remove_if_dead(const fs::path& path) {
  const int file = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return;
  struct stat status = {};
  const bool mine = fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid();
  if (mine && nobody_uses(file)) unlink(path.c_str());
  close(file);  // and with it the lease
}

}  // namespace

void remove_dead_segments(const std::string& folder) {
  if (is_in_memory(folder)) for_each_segment(folder, remove_if_dead);
}

void remove_segments_of(const std::string& job, const std::string& folder) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(job.data(), job.data() + job.size(), number);
  if (job.empty() || error != std::errc() || end != job.data() + job.size()) return;
  const std::string part = fmt::format(".{:x}.", number);
  for_each_segment(folder, [&part](const fs::path& path) {
    struct stat status = {};
    const bool mine = lstat(path.c_str(), &status) == 0 && status.st_uid == geteuid();
    if (mine && path.filename().string().find(part) != std::string::npos) unlink(path.c_str());
  });
}

}  // namespace unisono::comm::mpi
