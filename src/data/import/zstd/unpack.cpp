#include <zstd.h>
#include <zstd_errors.h>

#include <utility>

#include "import/unpack.hpp"

namespace unisono::data {
namespace {

/// RFC 8878: frames, one after the other. The library refuses those that need more than 128 MiB to be unpacked.
class ZstdBytes final : public ByteSource {
 public:
  explicit ZstdBytes(PackedBytes packed) : packed_(std::move(packed)), stream_(ZSTD_createDStream(), ZSTD_freeDStream) {
    if (stream_ == nullptr) throw std::bad_alloc();
  }

  std::size_t read(std::span<char> buffer) override {
    ZSTD_outBuffer out{buffer.data(), buffer.size(), 0};
    while (out.pos < out.size) {
      const std::span<char> bytes = packed_.next();
      if (bytes.empty() && ended_) break;
      const std::size_t before = out.pos;
      ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
      const std::size_t wanted = ZSTD_decompressStream(stream_.get(), &out, &in);
      if (ZSTD_getErrorCode(wanted) == ZSTD_error_frameParameter_windowTooLarge) fail_for_memory();
      if (ZSTD_isError(wanted) != 0) packed_.fail(ZSTD_getErrorName(wanted));
      packed_.skip(in.pos);
      ended_ = wanted == 0;
      if (bytes.empty() && !ended_ && out.pos == before) packed_.fail("unexpected end of file");
    }
    return out.pos;
  }
  const std::string& name() const override { return packed_.name(); }

 private:
  [[noreturn]] void fail_for_memory() const {
    throw DataError(fmt::format(
        "{}: needs more than 128 MiB of memory to be unpacked; unpack it with 'zstd -d --long=31', or compress it "
        "without --long or --ultra",
        name()));
  }

  PackedBytes packed_;
  std::unique_ptr<ZSTD_DStream, std::size_t (*)(ZSTD_DStream*)> stream_;
  bool ended_ = false;  ///< whether a frame ended last
};

}  // namespace

std::unique_ptr<ByteSource> unpacked_zstd(PackedBytes packed) { return std::make_unique<ZstdBytes>(std::move(packed)); }

}  // namespace unisono::data
