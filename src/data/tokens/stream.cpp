#include "tokens/stream.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "sparse/schema.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

std::uint64_t page_bytes() { return static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)); }

template <typename T>
void widen(const std::byte* from, std::span<std::int32_t> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));  // HDF5 need not align them
    out[i] = static_cast<std::int32_t>(value);
  }
}

template <typename T>
void narrow(std::span<const std::int64_t> from, std::byte* to) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    const T value = static_cast<T>(from[i]);
    std::memcpy(to + i * sizeof(T), &value, sizeof(T));
  }
}

[[noreturn]] void refuse_mapping(const std::string& name, const std::string& why, const std::string& advice) {
  throw DataError(fmt::format("{} {}, so it cannot be read during training; {}, or set data.reader = \"resident\"",
                              name, why, advice));
}

/// \param name "FILE: /train/tokens"
void require_mappable(const hdf5::DatasetShape& shape, const std::string& name) {
  using hdf5::Type;
  if (!shape.chunk.empty()) {
    refuse_mapping(name, shape.compressed ? "is compressed" : "is stored in chunks",
                   "write it without, as 'unisono data import tokens' does without --compression");
  }
  if (shape.type == Type::uint8 || shape.type == Type::uint16 || shape.type == Type::uint32 ||
      shape.type == Type::int32)
    return;
  refuse_mapping(name, fmt::format("holds {}", hdf5::name_of(shape.type)), "write it as uint16, uint32 or int32");
}

}  // namespace

FileMap::FileMap(const std::string& path, std::uint64_t offset, std::size_t bytes) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat state {};
  const bool is_there = file >= 0 && fstat(file, &state) == 0;
  const bool is_whole = is_there && offset + bytes <= static_cast<std::uint64_t>(state.st_size);
  const std::uint64_t skipped = offset % page_bytes();
  length_ = bytes + skipped;
  base_ =
      is_whole ? mmap(nullptr, length_, PROT_READ, MAP_SHARED, file, static_cast<off_t>(offset - skipped)) : MAP_FAILED;
  const int reason = errno;
  if (file >= 0) close(file);
  if (base_ == MAP_FAILED) {
    throw DataError(fmt::format("{}: cannot be read: {}", path,
                                is_there && !is_whole ? "the file is cut off; make it again" : std::strerror(reason)));
  }
  data_ = static_cast<const std::byte*>(base_) + skipped;
}

FileMap::~FileMap() { munmap(base_, length_); }

void FileMap::fetch(std::size_t first, std::size_t bytes) const {
  const auto begin = static_cast<std::size_t>(data_ - static_cast<const std::byte*>(base_)) + first;
  const std::size_t skipped = begin % page_bytes();
  madvise(static_cast<std::byte*>(base_) + begin - skipped, bytes + skipped, MADV_WILLNEED);
}

TokenStream::TokenStream(const hdf5::File& file, const TokenSchema& schema, const TokenGroup& group)
    : width_(hdf5::size_of(group.stored.type)),
      count_(group.tokens),
      vocabulary_(schema.vocabulary),
      name_(fmt::format("{}: /{}", file.path(), group.path())) {
  require_mappable(group.stored, name_);
  if (count_ == 0) return;
  offset_ = file.offset(group.path());
  elsewhere_ = redirection_of(file.path());
  if (!elsewhere_) {
    map_ = std::make_shared<const FileMap>(file.path(), offset_, static_cast<std::size_t>(count_) * width_);
    tokens_ = map_->data();
  }
  // What HDF5 reads shows whether the bytes have this machine's order, and are where they seem to be.
  std::vector<std::int64_t> expected(static_cast<std::size_t>(std::min<std::int64_t>(count_, 1 << 12)));
  std::vector<std::int32_t> found(expected.size());
  file.read_rows(group.path(), 0, expected.size(), expected.data());
  read(0, found);
  if (!std::ranges::equal(expected, found)) {
    refuse_mapping(name_, "has another byte order than this machine", "write it in this one's");
  }
}

void TokenStream::read(std::int64_t first, std::span<std::int32_t> out) const {
  const std::size_t begin = static_cast<std::size_t>(first) * width_;
  std::vector<std::byte> copied;
  if (elsewhere_) {
    copied.resize(out.size() * width_);
    elsewhere_->read(offset_ + begin, copied);
  }
  const std::byte* const from = elsewhere_ ? copied.data() : tokens_ + begin;
  if (width_ == 1) {
    widen<std::uint8_t>(from, out);
  } else if (width_ == 2) {
    widen<std::uint16_t>(from, out);
  } else {
    widen<std::uint32_t>(from, out);
  }
  if (in_file()) require_tokens(first, out);
}

void TokenStream::require_tokens(std::int64_t first, std::span<const std::int32_t> tokens) const {
  const auto bad = std::ranges::find_if(tokens, [&](std::int32_t token) { return token < 0 || token >= vocabulary_; });
  if (bad == tokens.end()) return;
  throw DataError(fmt::format("{}: value {} is {}, but must lie in [0, {})", name_, first + (bad - tokens.begin()),
                              *bad, vocabulary_));
}

void TokenStream::check(ExampleRange range) const {
  constexpr std::int64_t kAtATime = 1 << 16;
  std::vector<std::int32_t> tokens;
  for (std::int64_t first = range.first; in_file() && first < range.last; first += std::ssize(tokens)) {
    tokens.resize(static_cast<std::size_t>(std::min(kAtATime, range.last - first)));
    read(first, tokens);
  }
}

void TokenStream::fetch(std::int64_t first, std::int64_t count) const {
  if (map_ != nullptr) map_->fetch(static_cast<std::size_t>(first) * width_, static_cast<std::size_t>(count) * width_);
}

void read_tokens(const hdf5::File& file, const TokenSchema& schema, const TokenGroup& group, ExampleRange part,
                 std::byte* tokens) {
  const std::size_t width = token_width(schema.vocabulary);
  visit_numbers(file, group.path(), part, schema.vocabulary,
                [&](std::int64_t first, std::span<const std::int64_t> values) {
                  std::byte* const to = tokens + static_cast<std::size_t>(first) * width;
                  width == 2 ? narrow<std::uint16_t>(values, to) : narrow<std::uint32_t>(values, to);
                });
}

}  // namespace unisono::data
