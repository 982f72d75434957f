#include "unisono/base/local_folder.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "unisono/base/errors.hpp"

namespace unisono {

void refuse_local_folder(std::string_view key, const std::string& disk, const std::string& why) {
  throw ConfigError(fmt::format(
      "{} = \"{}\": {}; name a folder on a local disk of each node that you may write to, or remove the key", key, disk,
      why));
}

std::string not_writable(const std::string& path, int error) {
  return fmt::format("{} cannot be written: {}", path, std::strerror(error));
}

std::string folder_of_user(std::string_view key, const std::string& disk) {
  struct stat state {};
  if (::stat(disk.c_str(), &state) != 0 || !S_ISDIR(state.st_mode))
    refuse_local_folder(key, disk, "there is no such folder");
  const std::string folder = fmt::format("{}/unisono-{}", disk, ::geteuid());
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    refuse_local_folder(key, disk, not_writable(folder, errno));
  if (::lstat(folder.c_str(), &state) != 0) refuse_local_folder(key, disk, not_writable(folder, errno));
  const bool is_own = S_ISDIR(state.st_mode) && state.st_uid == ::geteuid() && (state.st_mode & 022) == 0;
  if (!is_own) refuse_local_folder(key, disk, folder + " does not belong to you alone");
  return folder;
}

}  // namespace unisono
