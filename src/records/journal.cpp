#include "unisono/records/journal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"

namespace unisono::records {
namespace {

constexpr std::size_t kHashDigits = 16;

std::string hash_of(const std::string& last, std::string_view text) {
  return fmt::format("{:016x}", hash_bytes(fmt::format("{}{}", last, text)));
}

std::string read_all(int descriptor) {
  std::string text;
  char part[1 << 16];
  for (;;) {
    const ssize_t count = ::read(descriptor, part, sizeof part);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(part, static_cast<std::size_t>(count));
  }
}

/// Takes the entries of all whole lines. \param last_hash of the last one \return where the last of them ends
std::size_t parse(const std::string& text, const std::string& path, std::vector<nlohmann::json>& entries,
                  std::string& last_hash) {
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string_view line(text.data() + begin, end - begin);
    const bool is_long = line.size() > kHashDigits + 1 && line[kHashDigits] == ' ';
    const std::string hash = is_long ? hash_of(last_hash, line.substr(kHashDigits + 1)) : "";
    if (!is_long || line.substr(0, kHashDigits) != hash) {
      throw CheckpointError(
          fmt::format("{}:{}: this line was changed since it was written, or lines before it are missing; begin anew "
                      "with --overwrite, or remove the lines from there on to lose only these",
                      path, entries.size() + 1));
    }
    entries.push_back(nlohmann::json::parse(line.substr(kHashDigits + 1)));
    last_hash = hash;
  }
  return begin;
}

}  // namespace

std::vector<nlohmann::json> read_journal(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw CheckpointError(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
  const std::string text = read_all(descriptor);
  ::close(descriptor);
  std::vector<nlohmann::json> entries;
  std::string last_hash;
  parse(text, path, entries, last_hash);
  return entries;
}

Journal::Journal(std::string path, bool anew)
    : path_(std::move(path)),
      descriptor_(::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666)),
      entries_(std::make_unique<std::vector<nlohmann::json>>()) {
  if (descriptor_ < 0) fail("cannot be opened");
  try {
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      throw OutputError(path_ +
                        ": another process is writing it; wait for that, or choose another folder with --output");
    }
    if (anew && ::ftruncate(descriptor_, 0) != 0) fail("cannot be shortened");
    read();
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

Journal::~Journal() { ::close(descriptor_); }

void Journal::read() {
  const std::string text = read_all(descriptor_);
  const std::size_t end = parse(text, path_, *entries_, last_hash_);
  if (end < text.size() && ::ftruncate(descriptor_, static_cast<off_t>(end)) != 0) fail("cannot be shortened");
}

void Journal::append(const nlohmann::json& entry) {
  const std::string text = entry.dump(), hash = hash_of(last_hash_, text), line = hash + " " + text + "\n";
  for (std::size_t done = 0; done < line.size();) {
    const ssize_t count = ::write(descriptor_, line.data() + done, line.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail("cannot be written");
    done += static_cast<std::size_t>(count);
  }
  last_hash_ = hash;
}

void Journal::fail(const std::string& what) const {
  throw OutputError(fmt::format("{}: {}: {}; free some space, or choose another folder with --output", path_, what,
                                std::strerror(errno)));
}

}  // namespace unisono::records
