#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace unisono {

/// A file that is read or overwritten in place; several ranks may do so at the same time. All functions throw DataError
/// in mode `read` and OutputError in mode `update`. Offsets and sizes are in bytes.
class RawFile {
 public:
  enum class Mode { read, update };
  RawFile(std::string path, Mode mode);
  /// Reads a file that is open already. \param path for messages \param descriptor the caller still has to close it
  RawFile(std::string path, int descriptor);
  ~RawFile();
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;

  std::uint64_t size() const;
  void read(std::uint64_t at, std::span<std::byte> bytes) const;
  void write(std::uint64_t at, std::span<const std::byte> bytes);
  /// Flushes everything to the disk.
  void sync();

 private:
  [[noreturn]] void fail(const std::string& what) const;

  std::string path_;
  Mode mode_;
  int descriptor_;
};

}  // namespace unisono
