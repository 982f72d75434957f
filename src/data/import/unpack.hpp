#pragma once

#include <memory>

#include "import/rows.hpp"

namespace unisono::data {

/// The bytes of a source, unpacked where they begin as those of gzip or zstd do, as they are otherwise. Several packed
/// parts may follow each other. Unpacks a piece at a time: memory does not grow with what is in it.
/// \throws DataError where a packed source is truncated or damaged, something else follows it, or this build cannot
/// unpack it
std::unique_ptr<ByteSource> unpacked(std::unique_ptr<ByteSource> source);

/// Whether bytes begin as those of gzip or zstd do.
bool is_packed(std::string_view beginning);

/// A source of packed bytes, and what was read of it but is not unpacked yet.
class PackedBytes {
 public:
  PackedBytes(std::unique_ptr<ByteSource> source, std::string_view beginning)
      : source_(std::move(source)), buffer_(beginning.begin(), beginning.end()) {}

  /// The next bytes; empty only at the end.
  std::span<char> next();
  /// Some of `next` are used up.
  void skip(std::size_t count) { at_ += count; }
  const std::string& name() const { return source_->name(); }
  /// \throws DataError "NAME: cannot be read to its end: REASON; …"
  [[noreturn]] void fail(std::string_view reason) const;

 private:
  std::unique_ptr<ByteSource> source_;
  std::vector<char> buffer_;
  std::size_t at_ = 0;
};

/// Unpacks what zstd packed. \throws DataError where this build has no libzstd
std::unique_ptr<ByteSource> unpacked_zstd(PackedBytes packed);

}  // namespace unisono::data
