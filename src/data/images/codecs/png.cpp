// PNG by libspng.
#include <spng.h>
#include <zlib.h>

#include <cstring>
#include <memory>

#include "images/picture.hpp"

namespace unisono::data {
namespace {

constexpr const char* kDamaged = "is a damaged PNG file: ";
constexpr unsigned kAlpha = 4;  // in the type of colours
constexpr std::size_t kMostOfChunk = 16 << 20, kMostOfChunks = 64 << 20;

/// On a white ground. \param alpha 255: nothing behind it can be seen
std::uint32_t on_white(std::uint32_t value, std::uint32_t alpha) {
  return (value * alpha + 255 * (255 - alpha) + 127) / 255;
}

using Decoder = std::unique_ptr<spng_ctx, void (*)(spng_ctx*)>;

void require_done(int code, const std::string& name) {
  if (code != 0) fail_picture(name, kDamaged + std::string(spng_strerror(code)));
}

/// Of a picture whose header was read. It reads the bytes later.
Decoder open_png(std::span<const std::uint8_t> bytes, const std::string& name) {
  Decoder decoder(spng_ctx_new(0), spng_ctx_free);
  if (!decoder) throw std::bad_alloc();
  spng_ihdr header{};
  require_done(spng_set_chunk_limits(decoder.get(), kMostOfChunk, kMostOfChunks), name);
  require_done(spng_set_png_buffer(decoder.get(), bytes.data(), bytes.size()), name);
  require_done(spng_get_ihdr(decoder.get(), &header), name);
  require_pixels(name, header.width, header.height);
  return decoder;
}

int orientation_of(spng_ctx& decoder) {
  spng_exif exif{};
  if (spng_get_exif(&decoder, &exif) != 0) return 1;
  return exif_orientation({reinterpret_cast<const std::uint8_t*>(exif.data), exif.length});
}

/// From red, green, blue and alpha to red, green and blue.
void put_on_white(std::vector<std::uint8_t>& values) {
  std::size_t out = 0;
  for (std::size_t i = 0; i < values.size(); i += 4) {
    const std::uint32_t alpha = values[i + 3];
    for (std::size_t colour = 0; colour < 3; ++colour) {
      values[out++] = static_cast<std::uint8_t>(on_white(values[i + colour], alpha));
    }
  }
  values.resize(out);
}

std::uint32_t big_endian(std::span<const std::uint8_t> bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 | bytes[3];
}

}  // namespace

int decode_png(std::span<const std::uint8_t> bytes, const std::string& name, const DecodingRequest& request,
               PicturePart& part) {
  const Decoder decoder = open_png(bytes, name);
  const auto require = [&](int code) { require_done(code, name); };
  spng_ihdr header{};
  spng_trns clear{};
  require(spng_get_ihdr(decoder.get(), &header));
  const bool is_opaque = (header.color_type & kAlpha) == 0 && spng_get_trns(decoder.get(), &clear) != 0;
  const bool is_grey = request.colours == Colours::grey;
  const spng_format format = is_opaque ? SPNG_FMT_RGB8 : SPNG_FMT_RGBA8;
  std::size_t size = 0;
  require(spng_decoded_image_size(decoder.get(), format, &size));
  Picture& picture = part.picture;
  picture.height = header.height;
  picture.width = header.width;
  picture.channels = 3;
  picture.values.resize(size);
  require(spng_decode_image(decoder.get(), picture.values.data(), size, format, SPNG_DECODE_TRNS));
  if (!is_opaque) put_on_white(picture.values);
  if (is_grey) to_grey(picture);
  const int orientation = orientation_of(*decoder);
  part.left = part.top = 0;
  part.box = chosen_box(request, orientation, picture.width, picture.height);
  return orientation;
}

DecodingBytes png_decoding_bytes(std::span<const std::uint8_t> bytes) {
  const Decoder decoder(spng_ctx_new(0), spng_ctx_free);
  spng_ihdr header{};
  if (!decoder || spng_set_png_buffer(decoder.get(), bytes.data(), bytes.size()) != 0) return {};
  if (spng_get_ihdr(decoder.get(), &header) != 0) return {};
  spng_trns clear{};
  const bool is_opaque = (header.color_type & kAlpha) == 0 && spng_get_trns(decoder.get(), &clear) != 0;
  return {.kept = std::int64_t{header.width} * header.height * (is_opaque ? 3 : 4)};
}

void check_png(std::span<const std::uint8_t> bytes, const std::string& name) {
  open_png(bytes, name);
  // A signature; then chunks of a length, a type, as many bytes, and their checksum.
  constexpr std::size_t kSignature = 8, kAround = 12;
  for (std::size_t at = kSignature;;) {
    const std::span left = bytes.subspan(at);
    if (left.size() < kAround) fail_picture(name, std::string(kDamaged) + "it is cut off");
    const std::size_t length = big_endian(left);
    if (length > left.size() - kAround) fail_picture(name, std::string(kDamaged) + "it is cut off");
    const auto sum = static_cast<std::uint32_t>(crc32(0, left.data() + 4, static_cast<uInt>(length + 4)));
    if (sum != big_endian(left.subspan(length + 8))) fail_picture(name, std::string(kDamaged) + "wrong checksum");
    if (std::memcmp(left.data() + 4, "IEND", 4) == 0) return;
    at += length + kAround;
  }
}

}  // namespace unisono::data
