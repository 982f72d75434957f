#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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
/// Bytes [begin, end) of a file as it is, also where it is gzipped. \throws DataError where it cannot be read
std::unique_ptr<ByteSource> open_bytes(const std::string& path, std::uint64_t begin, std::uint64_t end);
/// Of a regular file that is not gzipped; nothing: it is something else.
std::optional<std::uint64_t> plain_size(const std::string& path);
/// Of memory that outlives it.
std::unique_ptr<ByteSource> bytes_of(std::string_view text, const std::string& name);

/// A whole file.
std::vector<std::uint8_t> read_bytes(const std::string& path);

}  // namespace unisono::data
