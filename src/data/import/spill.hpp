#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace unisono::data {

/// Values that are set aside on the disk, and read back: what a reading of the input found, when the next step needs
/// more than memory has room for. The file has no name: it is gone with the object, however the process ends.
/// All throw OutputError where the file cannot be made, written or read.
class SpillFile {
 public:
  /// \param beside the output: the file lies in the same folder, which has room for it if it has for the output
  explicit SpillFile(const std::string& beside);
  ~SpillFile();
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  template <typename T>
  void append(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    append_bytes(std::as_bytes(values));
  }
  template <typename T>
  void append(const T& value) {
    append(std::span<const T>(&value, 1));
  }
  std::uint64_t bytes() const { return written_ + buffer_.size(); }

  /// Hands what is buffered to the file. Needed before `read`.
  void flush();
  void read(std::uint64_t offset, std::span<std::byte> bytes) const;

 private:
  void append_bytes(std::span<const std::byte> bytes);

  std::string output_;
  int file_ = -1;
  std::uint64_t written_ = 0;
  std::vector<std::byte> buffer_;
};

/// Reads a part of a file from its beginning to its end.
class SpillReader {
 public:
  /// Bytes [begin, end).
  SpillReader(const SpillFile& file, std::uint64_t begin, std::uint64_t end, std::size_t buffer_bytes);
  /// All of it; flushes it before.
  explicit SpillReader(SpillFile& file);

  /// False at the end.
  template <typename T>
  bool next(T& value) {
    if (buffer_.size() - at_ < sizeof(T) && !refill(sizeof(T))) return false;
    std::memcpy(&value, buffer_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return true;
  }
  /// \pre there are as many values
  template <typename T>
  void take(std::span<T> values) {
    take_bytes(std::as_writable_bytes(values));
  }

 private:
  bool refill(std::size_t needed);
  void take_bytes(std::span<std::byte> bytes);

  const SpillFile& file_;
  std::uint64_t next_, end_;
  std::size_t buffer_bytes_;
  std::vector<std::byte> buffer_;
  std::size_t at_ = 0;
};

}  // namespace unisono::data
