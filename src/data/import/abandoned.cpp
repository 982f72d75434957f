#include "import/abandoned.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <filesystem>

namespace unisono::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = ".unfinished-";

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

/// Of a name that ends in the mark, a process and this host; 0: it does not.
pid_t process_in(const std::string& name) {
  const auto mark = name.rfind(kMark);
  if (mark == std::string::npos) return 0;
  pid_t process = 0;
  const char* const last = name.data() + name.size();
  const auto [end, error] = std::from_chars(name.data() + mark + kMark.size(), last, process);
  return error == std::errc() && std::string(end, last) == "@" + host_name() ? process : 0;
}

/// HDF5 locks what it writes to, which tells where processes of another container have the same numbers.
bool nobody_writes(const fs::path& path) {
  const int file = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return false;
  struct stat status = {};
  const bool mine = fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid();
  const bool unlocked = flock(file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
  close(file);
  return mine && unlocked;
}

}  // namespace

std::string unfinished_path(const std::string& output) {
  return fmt::format("{}{}{}@{}", output, kMark, getpid(), host_name());
}

void remove_abandoned(const std::string& output) {
  const fs::path whole(output);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(whole.has_parent_path() ? whole.parent_path() : ".", ignored)) {
    const pid_t process = process_in(entry.path().filename().string());
    const bool is_dead = process > 0 && kill(process, 0) != 0 && errno == ESRCH;
    if (is_dead && nobody_writes(entry.path())) fs::remove(entry.path(), ignored);
  }
}

}  // namespace unisono::data
