// PNG by libspng.
#include <spng.h>

#include <memory>

#include "images/picture.hpp"

namespace unisono::data {
namespace {

constexpr std::size_t kMostOfChunk = 16 << 20, kMostOfChunks = 64 << 20;

/// On a white ground. \param alpha 255: nothing behind it can be seen
std::uint32_t on_white(std::uint32_t value, std::uint32_t alpha) {
  return (value * alpha + 255 * (255 - alpha) + 127) / 255;
}

}  // namespace

Picture decode_png(std::span<const std::uint8_t> bytes, const std::string& name, Colours colours, int& orientation) {
  const std::unique_ptr<spng_ctx, void (*)(spng_ctx*)> decoder(spng_ctx_new(0), spng_ctx_free);
  if (!decoder) throw std::bad_alloc();
  const auto require = [&](int code) {
    if (code != 0) fail_picture(name, std::string("is a damaged PNG file: ") + spng_strerror(code));
  };
  spng_ihdr header{};
  require(spng_set_chunk_limits(decoder.get(), kMostOfChunk, kMostOfChunks));
  require(spng_set_png_buffer(decoder.get(), bytes.data(), bytes.size()));
  require(spng_get_ihdr(decoder.get(), &header));
  require_pixels(name, header.width, header.height);
  std::size_t size = 0;
  require(spng_decoded_image_size(decoder.get(), SPNG_FMT_RGBA8, &size));
  std::vector<std::uint8_t> decoded(size);
  require(spng_decode_image(decoder.get(), decoded.data(), decoded.size(), SPNG_FMT_RGBA8, SPNG_DECODE_TRNS));
  spng_exif exif{};
  orientation = 1;
  if (spng_get_exif(decoder.get(), &exif) == 0) {
    orientation = exif_orientation({reinterpret_cast<const std::uint8_t*>(exif.data), exif.length});
  }
  const bool is_grey = colours == Colours::grey;
  Picture picture{.height = header.height, .width = header.width, .channels = is_grey ? 1 : 3};
  picture.values.reserve(decoded.size() / 4 * static_cast<std::size_t>(picture.channels));
  for (std::size_t i = 0; i < decoded.size(); i += 4) {
    const std::uint32_t alpha = decoded[i + 3], red = on_white(decoded[i], alpha),
                        green = on_white(decoded[i + 1], alpha), blue = on_white(decoded[i + 2], alpha);
    if (is_grey) {
      picture.values.push_back(brightness(red, green, blue));
    } else {
      for (const std::uint32_t value : {red, green, blue}) picture.values.push_back(static_cast<std::uint8_t>(value));
    }
  }
  return picture;
}

}  // namespace unisono::data
