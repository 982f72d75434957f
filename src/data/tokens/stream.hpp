#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "tokens/schema.hpp"
#include "unisono/base/file_bytes.hpp"

namespace unisono::data {

/// Part of a file, mapped into memory to be read: the system brings its pages when they are needed, and the processes
/// of a node share them.
class FileMap {
 public:
  /// Bytes [offset, offset + bytes). \throws DataError where the file has fewer, or cannot be mapped
  FileMap(const std::string& path, std::uint64_t offset, std::size_t bytes);
  ~FileMap();
  FileMap(const FileMap&) = delete;
  FileMap& operator=(const FileMap&) = delete;

  const std::byte* data() const { return data_; }
  /// Asks the system to bring these bytes soon.
  void fetch(std::size_t first, std::size_t bytes) const;

 private:
  void* base_ = nullptr;
  std::size_t length_ = 0;
  const std::byte* data_ = nullptr;
};

/// The tokens of a group, in memory or in a file (mapped, or staged), of 1, 2 or 4 bytes each.
class TokenStream {
 public:
  TokenStream() = default;
  /// In memory, where all are known to be below V.
  TokenStream(const std::byte* tokens, std::size_t width, std::int64_t count)
      : tokens_(tokens), width_(width), count_(count) {}
  /// In the file; mapped, unless a Redirection says that it is read elsewhere. \throws DataError where the dataset
  /// cannot be mapped
  TokenStream(const hdf5::File& file, const TokenSchema& schema, const TokenGroup& group);

  std::int64_t size() const { return count_; }
  /// Tokens first, first + 1, …, as many as `out` has. \throws DataError naming the place of a number that is no
  /// token's
  void read(std::int64_t first, std::span<std::int32_t> out) const;
  /// Reads tokens [range) of a file for their check alone. \throws DataError, as `read`
  void check(ExampleRange range) const;
  /// Asks for tokens that will be read soon.
  void fetch(std::int64_t first, std::int64_t count) const;

 private:
  bool in_file() const { return map_ != nullptr || elsewhere_ != nullptr; }
  void require_tokens(std::int64_t first, std::span<const std::int32_t> tokens) const;

  const std::byte* tokens_ = nullptr;
  std::size_t width_ = 2;
  std::int64_t count_ = 0;
  std::shared_ptr<const FileMap> map_;  ///< null: in memory, or read elsewhere
  std::shared_ptr<const FileBytes>
      elsewhere_;             ///< where a Redirection says that the file is read; null: it says nothing
  std::uint64_t offset_ = 0;  ///< of the first token there
  Index vocabulary_ = 0;      ///< of a file, whose tokens are checked when they are read
  std::string name_;          ///< "FILE: /train/tokens"
};

/// Bytes of a token in memory.
inline std::size_t token_width(Index vocabulary) { return vocabulary <= (1 << 16) ? 2 : 4; }

/// Reads tokens of a group into memory, token_width bytes each. \param part which of them, and where they go
/// \throws DataError naming the place of a number that is no token's
void read_tokens(const hdf5::File& file, const TokenSchema& schema, const TokenGroup& group, ExampleRange part,
                 std::byte* tokens);

}  // namespace unisono::data
