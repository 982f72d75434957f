#include "unisono/base/raw_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "unisono/base/errors.hpp"

namespace unisono {

RawFile::RawFile(std::string path, Mode mode)
    : path_(std::move(path)),
      mode_(mode),
      descriptor_(::open(path_.c_str(), (mode == Mode::read ? O_RDONLY : O_RDWR) | O_CLOEXEC)) {
  if (descriptor_ < 0) fail("be opened");
}

RawFile::RawFile(std::string path, int descriptor)
    : path_(std::move(path)), mode_(Mode::read), descriptor_(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0)) {
  if (descriptor_ < 0) fail("be opened");
}

RawFile::~RawFile() { ::close(descriptor_); }

void RawFile::fail(const std::string& what) const {
  const std::string text = fmt::format("{}: cannot {}: {}", path_, what, std::strerror(errno));
  if (mode_ == Mode::read) throw DataError(text);
  throw OutputError(text);
}

std::uint64_t RawFile::size() const {
  struct stat state {};
  if (::fstat(descriptor_, &state) != 0) fail("be examined");
  return static_cast<std::uint64_t>(state.st_size);
}

void RawFile::read(std::uint64_t at, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) errno = ENODATA;
    if (count <= 0) fail("be read to its end");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    at += static_cast<std::uint64_t>(count);
  }
}

void RawFile::write(std::uint64_t at, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail("be written");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    at += static_cast<std::uint64_t>(count);
  }
}

void RawFile::sync() {
  if (::fsync(descriptor_) != 0 && errno != EINVAL) fail("be flushed to the disk");
}

}  // namespace unisono
