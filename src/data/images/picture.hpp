#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "unisono/data/images.hpp"

// Pictures of JPEG and PNG files, from their bytes to the images of a set.
namespace unisono::data {

/// A decoded picture.
struct Picture {
  std::int64_t height = 0, width = 0, channels = 0;  ///< channels: 1, grey; 3, red, green and blue
  std::vector<std::uint8_t> values = {};             ///< [height, width, channels]
};

/// More pixels are refused: a header of some bytes may claim any number.
inline constexpr std::int64_t kMostPixels = 1 << 27;

enum class PictureFormat { none, jpeg, png };

/// By the first bytes of a file.
PictureFormat format_of(std::span<const std::uint8_t> bytes);

/// Decodes a JPEG or PNG file, upright as its Exif data say. Parts of a PNG that can be seen through get a white
/// ground. \param name of the file, for messages \param size what it will be scaled to: a JPEG that is more than twice
/// as large may be decoded at a half, a quarter or an eighth of its size
/// \throws DataError for other bytes, and for what is damaged, truncated or larger than kMostPixels
Picture decode_picture(std::span<const std::uint8_t> bytes, const std::string& name, const ImageForm& size);

/// The orientation that Exif data give a picture, 1 to 8; 1, upright, where they do not. \param exif from the byte
/// order on: "II*\0" or "MM\0*"
int exif_orientation(std::span<const std::uint8_t> exif);

/// Turns a picture that is stored in one of Exif's orientations upright.
Picture upright(Picture stored, int orientation);

/// Scales a picture to the form, [channels, height, width]. Each pixel is the mean of the pixels around its place,
/// weighted by a triangle that is as wide as the scale asks for (as Pillow's Resampling.BILINEAR).
std::vector<std::uint8_t> scaled(const Picture& picture, const ImageForm& form);

// What decoders share.

/// \throws DataError "NAME: what"
[[noreturn]] void fail_picture(const std::string& name, const std::string& what);

/// \throws DataError for pictures without pixels, or with too many
void require_pixels(const std::string& name, std::int64_t width, std::int64_t height);

/// The brightness of a colour, as in JPEG (ITU-R BT.601).
inline std::uint8_t brightness(std::uint32_t red, std::uint32_t green, std::uint32_t blue) {
  return static_cast<std::uint8_t>((19595 * red + 38470 * green + 7471 * blue + 0x8000) >> 16);
}

/// Not upright yet. \see decode_picture
Picture decode_jpeg(std::span<const std::uint8_t> bytes, const std::string& name, const ImageForm& size,
                    int& orientation);
Picture decode_png(std::span<const std::uint8_t> bytes, const std::string& name, Colours colours, int& orientation);

}  // namespace unisono::data
