#include "import/unpack.hpp"

#include <zlib.h>

#include <algorithm>
#include <utility>

namespace unisono::data {
namespace {

constexpr std::size_t kPackedAtATime = 256 << 10;
constexpr std::string_view kGzip = "\x1F\x8B", kZstd = "\x28\xB5\x2F\xFD";

/// A frame, or one of those that hold no data, with which pzstd begins.
bool is_zstd(std::string_view beginning) {
  return beginning.starts_with(kZstd) ||
         (beginning.size() >= 4 && (beginning[0] & 0xF0) == 0x50 && beginning.substr(1, 3) == "\x2A\x4D\x18");
}

/// RFC 1952: members, one after the other. gzip fills files up with zeros on some media, which are no mistake.
class GzipBytes final : public ByteSource {
 public:
  explicit GzipBytes(PackedBytes packed) : packed_(std::move(packed)) {
    constexpr int kLargestWindow = 15, kGzipHeader = 16;
    if (inflateInit2(&stream_, kLargestWindow + kGzipHeader) != Z_OK) throw std::bad_alloc();
  }
  ~GzipBytes() override { inflateEnd(&stream_); }
  GzipBytes(const GzipBytes&) = delete;
  GzipBytes& operator=(const GzipBytes&) = delete;

  std::size_t read(std::span<char> buffer) override {
    std::size_t filled = 0;
    while (filled < buffer.size() && (inside_ || begin_member())) filled += inflate_into(buffer.subspan(filled));
    return filled;
  }
  const std::string& name() const override { return packed_.name(); }

 private:
  /// False at the end.
  bool begin_member() {
    std::span<char> bytes = packed_.next();
    if (bytes.empty()) return false;
    if (any_ && bytes[0] == 0) {
      skip_zeros();
      return false;
    }
    if (any_ && bytes[0] != kGzip[0]) packed_.fail("something else follows the compressed data");
    if (any_) inflateReset(&stream_);
    any_ = inside_ = true;
    return true;
  }

  void skip_zeros() {
    for (auto bytes = packed_.next(); !bytes.empty(); bytes = packed_.next()) {
      if (std::ranges::any_of(bytes, [](char c) { return c != 0; }))
        packed_.fail("something else follows the compressed data");
      packed_.skip(bytes.size());
    }
  }

  std::size_t inflate_into(std::span<char> buffer) {
    const std::span<char> bytes = packed_.next();
    const std::size_t room = std::min(buffer.size(), kPackedAtATime);
    stream_.next_in = reinterpret_cast<Bytef*>(bytes.data());
    stream_.avail_in = static_cast<uInt>(bytes.size());
    stream_.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream_.avail_out = static_cast<uInt>(room);
    const int code = inflate(&stream_, Z_NO_FLUSH);
    packed_.skip(bytes.size() - stream_.avail_in);
    const std::size_t count = room - stream_.avail_out;
    if (code == Z_STREAM_END) {
      inside_ = false;
    } else if (code == Z_BUF_ERROR && bytes.empty() && count == 0) {
      packed_.fail("unexpected end of file");
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      packed_.fail(stream_.msg == nullptr ? "data error" : stream_.msg);
    }
    return count;
  }

  PackedBytes packed_;
  z_stream stream_{};
  bool any_ = false, inside_ = false;  ///< whether a member has begun, and has not ended
};

/// A source whose first bytes were read already.
class BegunBytes final : public ByteSource {
 public:
  BegunBytes(std::unique_ptr<ByteSource> source, std::string beginning)
      : source_(std::move(source)), beginning_(std::move(beginning)) {}

  std::size_t read(std::span<char> buffer) override {
    const std::size_t count = std::min(buffer.size(), beginning_.size() - at_);
    std::copy_n(beginning_.data() + at_, count, buffer.begin());
    at_ += count;
    return count + source_->read(buffer.subspan(count));
  }
  const std::string& name() const override { return source_->name(); }

 private:
  std::unique_ptr<ByteSource> source_;
  std::string beginning_;
  std::size_t at_ = 0;
};

}  // namespace

bool is_packed(std::string_view beginning) { return beginning.starts_with(kGzip) || is_zstd(beginning); }

std::span<char> PackedBytes::next() {
  if (at_ == buffer_.size()) {
    buffer_.resize(kPackedAtATime);
    buffer_.resize(source_->read(buffer_));
    at_ = 0;
  }
  return std::span(buffer_).subspan(at_);
}

void PackedBytes::fail(std::string_view reason) const {
  throw DataError(
      fmt::format("{}: cannot be read to its end: {}; the file is truncated or damaged; download or copy it again",
                  name(), reason));
}

std::unique_ptr<ByteSource> unpacked(std::unique_ptr<ByteSource> source) {
  std::string beginning(kZstd.size(), '\0');
  beginning.resize(source->read(beginning));
  if (beginning.starts_with(kGzip)) return std::make_unique<GzipBytes>(PackedBytes(std::move(source), beginning));
  if (is_zstd(beginning)) return unpacked_zstd({std::move(source), beginning});
  return std::make_unique<BegunBytes>(std::move(source), std::move(beginning));
}

}  // namespace unisono::data
