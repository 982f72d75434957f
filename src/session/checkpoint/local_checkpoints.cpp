#include "checkpoint/local_checkpoints.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <random>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint_folder.hpp"
#include "unisono/base/local_folder.hpp"
#include "unisono/base/printable.hpp"
#include "unisono/base/raw_file.hpp"
#include "unisono/records/run_folder.hpp"

namespace unisono::session {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLocalKey = "checkpoint.local";
constexpr std::string_view kBest = "best-", kStep = "step-", kSuffix = ".h5";
constexpr std::size_t kIdLetters = 32;

std::string folder_of_checkpoints(const std::string& local) {
  const std::string folder = folder_of_user(kLocalKey, local) + "/checkpoints";
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    refuse_local_folder(kLocalKey, local, not_writable(folder, errno));
  return folder;
}

/// Whether a path has the form of a folder that make_local_folder makes for this user. Nothing else is touched,
/// whatever a note says.
bool is_local_folder(const std::string& folder) {
  const fs::path path(folder), checkpoints = path.parent_path();
  const std::string id = path.filename();
  struct stat state {};
  return path.is_absolute() && path == path.lexically_normal() && is_id(id) &&
         checkpoints.filename() == "checkpoints" &&
         checkpoints.parent_path().filename() == fmt::format("unisono-{}", ::geteuid()) &&
         ::lstat(folder.c_str(), &state) == 0 && S_ISDIR(state.st_mode) && state.st_uid == ::geteuid() &&
         (state.st_mode & 022) == 0;
}

/// Takes a number from the beginning of a text. \return whether there was one
bool take_number(std::string_view& text, std::int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool take_word(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

std::optional<LocalCheckpoint> parse_name(const fs::path& path) {
  const std::string name = path.filename();
  std::string_view rest = name;
  LocalCheckpoint found{.path = path.string()};
  if (!take_number(rest, found.number) || !take_word(rest, "-")) return std::nullopt;
  found.best = take_word(rest, kBest);
  const bool is_one = take_word(rest, kStep) && take_number(rest, found.step) && rest == kSuffix;
  return is_one ? std::optional(found) : std::nullopt;
}

std::string note_in(const std::string& checkpoints) { return checkpoints + "/local.txt"; }

std::string lock_in(const std::string& folder) { return folder + "/lock"; }

}  // namespace

std::string new_id() {
  std::random_device device;
  std::string id;
  while (id.size() < kIdLetters) id += fmt::format("{:08x}", device());
  return id;
}

bool is_id(const std::string& id) {
  return id.size() == kIdLetters && id.find_first_not_of("0123456789abcdef") == std::string::npos;
}

namespace {

/// A file in a folder that has no name, or none any more: a kill leaves nothing of it.
OpenFile open_nameless(const std::string& folder) {
  OpenFile file(::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
  if (file.is_open()) return file;
  const std::string path = fmt::format("{}/probe-{}{}", folder, new_id(), kUnfinished);  // not all disks have O_TMPFILE
  file = OpenFile(::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
  if (file.is_open()) ::unlink(path.c_str());
  return file;
}

}  // namespace

void require_local_disk(const std::string& local) {
  const std::string folder = folder_of_checkpoints(local);
  const std::vector<char> bytes(4096);
  errno = 0;
  const OpenFile probe = open_nameless(folder);
  const bool is_written =
      probe.is_open() && ::write(probe.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  if (!is_written) refuse_local_folder(kLocalKey, local, not_writable(folder, errno));
}

std::string make_local_folder(const std::string& local) {
  const std::string folder = fs::canonical(folder_of_checkpoints(local)) / new_id();
  if (::mkdir(folder.c_str(), 0700) != 0) refuse_local_folder(kLocalKey, local, not_writable(folder, errno));
  return folder;
}

OpenFile lock_local_folder(const std::string& folder) {
  if (!is_local_folder(folder)) return {};
  OpenFile lock(::open(lock_in(folder).c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  return lock.is_open() && lock_file(lock, LOCK_EX | LOCK_NB) ? std::move(lock) : OpenFile();
}

LocalCheckpoint local_checkpoint(const std::string& folder, std::int64_t number, std::int64_t step, bool best) {
  const std::string name =
      fmt::format("{:06}-{}{}{:09}{}", number, best ? kBest : std::string_view(), kStep, step, kSuffix);
  return {.path = (fs::path(folder) / name).string(), .number = number, .step = step, .best = best};
}

std::vector<LocalCheckpoint> local_checkpoints_in(const std::string& folder) {
  std::vector<LocalCheckpoint> found;
  if (!is_local_folder(folder)) return found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (auto one = parse_name(entry.path())) {
      found.push_back(std::move(*one));
    } else if (entry.path().string().ends_with(kUnfinished)) {
      fs::remove(entry.path(), ignored);
    }
  }
  std::ranges::sort(found, {}, &LocalCheckpoint::number);
  return found;
}

std::optional<LocalNote> read_local_note(const std::string& checkpoints) {
  std::ifstream file(note_in(checkpoints));
  LocalNote note;
  if (!std::getline(file, note.host) || !std::getline(file, note.folder)) return std::nullopt;
  const bool is_whole = !note.host.empty() && fs::path(note.folder).is_absolute() &&
                        printable(note.host) == note.host && printable(note.folder) == note.folder;
  return is_whole ? std::optional(note) : std::nullopt;
}

bool has_damaged_note(const std::string& checkpoints) {
  std::error_code ignored;
  return fs::exists(note_in(checkpoints), ignored) && !read_local_note(checkpoints);
}

void write_local_note(const std::string& checkpoints, const LocalNote& note) {
  records::write_text_file(note_in(checkpoints), fmt::format("{}\n{}\n", note.host, note.folder));
}

void forget_local_checkpoints(const std::string& checkpoints) {
  if (const auto note = read_local_note(checkpoints)) remove_local_folder(note->folder);
  std::error_code ignored;
  fs::remove(note_in(checkpoints), ignored);
}

void remove_local_folder(const std::string& folder) {
  const OpenFile lock = lock_local_folder(folder);
  if (!lock.is_open()) return;
  std::error_code ignored;
  for (const LocalCheckpoint& one : local_checkpoints_in(folder)) fs::remove(one.path, ignored);
  fs::remove(lock_in(folder), ignored);
  fs::remove(folder, ignored);
}

}  // namespace unisono::session
