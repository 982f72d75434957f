#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace unisono {

/// The bytes of a file that is read by place, wherever they are kept. May be read by several threads at a time.
class FileBytes {
 public:
  virtual ~FileBytes() = default;
  /// Reads bytes [at, at + bytes.size()). \throws DataError where they cannot be read
  virtual void read(std::uint64_t at, std::span<std::byte> bytes) const = 0;
};

/// As long as it exists, whoever in this process reads the file of a path gets these bytes: RawFile in mode `read`, and
/// what is built on it. The file must exist, with the same size. Of several for a path, the newest counts.
class Redirection {
 public:
  Redirection(std::string path, std::shared_ptr<const FileBytes> bytes);
  ~Redirection();
  Redirection(const Redirection&) = delete;
  Redirection& operator=(const Redirection&) = delete;

 private:
  std::shared_ptr<const FileBytes> bytes_;
};

/// Where the bytes of a file are read; null: in the file itself.
std::shared_ptr<const FileBytes> redirection_of(const std::string& path);

}  // namespace unisono
