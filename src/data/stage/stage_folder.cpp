#include "stage/stage_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <system_error>
#include <vector>

#include "unisono/base/local_folder.hpp"

// <stage>/unisono-<uid>/lock             locked while copies are opened and removed
// <stage>/unisono-<uid>/<identity>/      a copy:
//     pages, index                       see PageFile
//     set                                the file's path, and how many bytes its users will keep, a line each
//     used                               locked (shared) by its users; its time is that of the last use
namespace unisono::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kKey = "data.stage";

[[noreturn]] void refuse_stage(const std::string& stage, const std::string& why) {
  refuse_local_folder(kKey, stage, why);
}

OpenFile open_lock(const std::string& stage, const std::string& path) {
  OpenFile file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.is_open()) refuse_stage(stage, not_writable(path, errno));
  return file;
}

/// What the file `set` of a copy says.
struct NoteOnCopy {
  std::string path;
  std::uint64_t expected = 0;
};

NoteOnCopy read_note(const std::string& folder) {
  NoteOnCopy note;
  std::ifstream file(folder + "/set");
  std::string number;
  std::getline(file, note.path);
  if (std::getline(file, number)) note.expected = std::strtoull(number.c_str(), nullptr, 10);
  return note;
}

/// \throws std::system_error
void write_note(const std::string& folder, const NoteOnCopy& note) {
  const std::string aside = folder + "/set.new";
  std::ofstream file(aside);
  file << note.path << '\n' << note.expected << '\n';
  file.close();
  if (!file || std::rename(aside.c_str(), (folder + "/set").c_str()) != 0)
    throw std::system_error(errno, std::generic_category(), folder + "/set");
}

/// Another copy of the user.
struct OtherCopy {
  std::string folder;
  NoteOnCopy note;
  std::uint64_t bytes = 0;  ///< that it takes on the disk, or will take while it is in use
  fs::file_time_type last_use;
  OpenFile unused;  ///< holds its lock; closed: it is in use
};

OtherCopy look_at_copy(const std::string& stage, const std::string& folder) {
  OtherCopy copy{
      .folder = folder, .note = read_note(folder), .bytes = bytes_on_disk(folder), .last_use = {}, .unused = {}};
  std::error_code ignored;
  copy.last_use = fs::last_write_time(folder + "/used", ignored);
  OpenFile lock = open_lock(stage, folder + "/used");
  if (lock_file(lock, LOCK_EX | LOCK_NB)) copy.unused = std::move(lock);
  if (!copy.unused.is_open()) copy.bytes = std::max(copy.bytes, copy.note.expected);
  return copy;
}

/// All copies but `own`, those that were used least recently first.
std::vector<OtherCopy> other_copies(const std::string& stage, const std::string& user, const std::string& own) {
  std::vector<OtherCopy> copies;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(user, ignored)) {
    const std::string folder = entry.path().string();
    const bool is_copy = fs::exists(folder + "/used", ignored);  // and not the folder of local checkpoints
    if (folder != own && is_copy) copies.push_back(look_at_copy(stage, folder));
  }
  std::ranges::sort(copies, {}, &OtherCopy::last_use);
  return copies;
}

void remove_copy(OtherCopy& copy) {
  std::error_code ignored;
  fs::remove_all(copy.folder, ignored);
  copy.bytes = 0;
  copy.unused = OpenFile();
}

/// Removes copies of older versions of the same file, and what has no room. \return what the others keep, in bytes
std::uint64_t make_room(std::vector<OtherCopy>& others, const StagedSource& source, std::uint64_t most_bytes,
                        StagedCopy& opened) {
  std::uint64_t kept = 0;
  for (OtherCopy& copy : others) {
    if (copy.unused.is_open() && copy.note.path == source.path) remove_copy(copy);
    kept += copy.bytes;
  }
  for (OtherCopy& copy : others) {
    if (kept + std::min(source.expected, most_bytes) <= most_bytes) break;
    if (!copy.unused.is_open()) continue;
    kept -= copy.bytes;
    opened.evicted += (opened.evicted.empty() ? "" : ", ") + copy.note.path;
    remove_copy(copy);
  }
  return kept;
}

}  // namespace

StagedCopy open_staged_copy(const std::string& stage, const StagedSource& source, std::uint64_t most_bytes) {
  if (most_bytes == 0) most_bytes = std::numeric_limits<std::uint64_t>::max() / 2;
  const std::string user = folder_of_user(kKey, stage), own = fmt::format("{}/{:016x}", user, source.identity);
  const OpenFile lock = open_lock(stage, user + "/lock");
  lock_file(lock, LOCK_EX);
  StagedCopy opened;
  std::vector<OtherCopy> others = other_copies(stage, user, own);
  const std::uint64_t kept = make_room(others, source, most_bytes, opened);
  opened.most_bytes = most_bytes - std::min(most_bytes, kept);
  if (::mkdir(own.c_str(), 0700) != 0 && errno != EEXIST) refuse_stage(stage, not_writable(own, errno));
  opened.used = open_lock(stage, own + "/used");
  lock_file(opened.used, LOCK_SH);
  ::futimens(opened.used.get(), nullptr);
  try {
    write_note(own, {source.path, std::max(source.expected, read_note(own).expected)});
    opened.pages = std::make_unique<PageFile>(own, source.bytes, source.identity);
  } catch (const std::system_error& error) {
    refuse_stage(stage, not_writable(own, error.code().value()));
  }
  return opened;
}

}  // namespace unisono::data
