#include "unisono/base/open_file.hpp"

#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace unisono {

OpenFile::~OpenFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

OpenFile::OpenFile(OpenFile&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

OpenFile& OpenFile::operator=(OpenFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

bool lock_file(const OpenFile& file, int operation) {
  while (::flock(file.get(), operation) != 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

}  // namespace unisono
