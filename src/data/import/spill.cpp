#include "import/spill.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>

#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

constexpr std::size_t kSpillBufferBytes = 1 << 20;

[[noreturn]] void fail_spill(const std::string& file, const char* what) {
  throw OutputError(
      fmt::format("{}: a temporary file in its folder cannot be {}: {}", file, what, std::strerror(errno)));
}

}  // namespace

SpillFile::SpillFile(const std::string& beside) : output_(beside) {
  std::string name = beside + ".spill-XXXXXX";
  file_ = mkostemp(name.data(), O_CLOEXEC);
  if (file_ < 0) fail_spill(beside, "created");
  unlink(name.c_str());
  buffer_.reserve(kSpillBufferBytes);
}

SpillFile::~SpillFile() { close(file_); }

void SpillFile::append_bytes(std::span<const std::byte> bytes) {
  if (buffer_.size() + bytes.size() > kSpillBufferBytes) flush();
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

void SpillFile::flush() {
  for (std::size_t done = 0; done < buffer_.size();) {
    const ssize_t count = write(file_, buffer_.data() + done, buffer_.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_spill(output_, "written");
    done += static_cast<std::size_t>(count);
  }
  written_ += buffer_.size();
  buffer_.clear();
}

void SpillFile::read(std::uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = pread(file_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) errno = EIO;  // it is shorter than what was written
    if (count <= 0) fail_spill(output_, "read");
    offset += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

SpillReader::SpillReader(const SpillFile& file, std::uint64_t begin, std::uint64_t end, std::size_t buffer_bytes)
    : file_(file), next_(begin), end_(end), buffer_bytes_(buffer_bytes) {}

SpillReader::SpillReader(SpillFile& file) : SpillReader(file, 0, file.bytes(), kSpillBufferBytes) { file.flush(); }

void SpillReader::take_bytes(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    [[maybe_unused]] const bool more = at_ < buffer_.size() || refill(1);
    assert(more);
    const std::size_t count = std::min(bytes.size(), buffer_.size() - at_);
    std::copy_n(buffer_.begin() + static_cast<std::ptrdiff_t>(at_), count, bytes.begin());
    at_ += count;
    bytes = bytes.subspan(count);
  }
}

/// Keeps what was not read yet in front of what comes.
bool SpillReader::refill(std::size_t needed) {
  buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(at_));
  at_ = 0;
  const std::size_t kept = buffer_.size();
  buffer_.resize(
      static_cast<std::size_t>(std::min<std::uint64_t>(std::max(buffer_bytes_, needed), kept + end_ - next_)));
  const std::span<std::byte> fresh = std::span(buffer_).subspan(kept);
  file_.read(next_, fresh);
  next_ += fresh.size();
  return buffer_.size() >= needed;
}

}  // namespace unisono::data
