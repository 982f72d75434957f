#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace unisono::data {

/// A file as a sequence of bytes, unpacked where it is gzipped.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Fills a buffer as far as there are bytes; fewer than its size only at the end.
  /// \throws DataError where the file is truncated or damaged
  virtual std::size_t read(std::span<char> buffer) = 0;
  virtual const std::string& name() const = 0;
};

/// \throws DataError where it does not exist or cannot be read
std::unique_ptr<ByteSource> open_bytes(const std::string& path);
/// Of memory that outlives it.
std::unique_ptr<ByteSource> bytes_of(std::string_view text, const std::string& name);

/// A whole file.
std::vector<std::uint8_t> read_bytes(const std::string& path);

}  // namespace unisono::data
