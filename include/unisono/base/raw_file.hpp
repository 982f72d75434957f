#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace unisono {

/// A file whose bytes are read or overwritten in place, which several ranks may do at the same time.
/// All throw: DataError for one that is read, OutputError for one that is written.
class RawFile {
 public:
  enum class Mode { read, update };
  RawFile(std::string path, Mode mode);
  /// Reads a file that is open already. \param path for messages \param descriptor stays the caller's
  RawFile(std::string path, int descriptor);
  ~RawFile();
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;

  std::uint64_t size() const;
  void read(std::uint64_t at, std::span<std::byte> bytes) const;
  void write(std::uint64_t at, std::span<const std::byte> bytes);
  /// Writes everything through to the disk.
  void sync();

 private:
  [[noreturn]] void fail(const std::string& what) const;

  std::string path_;
  Mode mode_;
  int descriptor_;
};

}  // namespace unisono
