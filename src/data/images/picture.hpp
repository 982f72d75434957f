#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "unisono/data/images.hpp"

// Pictures of JPEG and PNG files, from their bytes to the images of a set.
namespace unisono::data {

/// A decoded picture, or a part of one.
struct Picture {
  std::int64_t height = 0, width = 0, channels = 0;  ///< channels: 1, grey; 3, red, green and blue
  std::vector<std::uint8_t> values = {};             ///< [height, width, channels]
};

/// A rectangle in a picture, in pixels from its upper left corner.
struct Box {
  double left = 0, top = 0, width = 0, height = 0;
};

/// A part of a picture, and the rectangle that was asked for.
struct PicturePart {
  Picture picture;
  std::int64_t left = 0, top = 0;  ///< of the whole picture, where the part begins
  Box box;                         ///< in the whole picture
};

/// What is decoded of a picture.
struct DecodingRequest {
  Colours colours = Colours::rgb;
  std::int64_t height = 1, width = 1;  ///< what the rectangle will be scaled to
  /// Chooses the rectangle in an upright picture; null: all of it.
  std::function<Box(std::int64_t height, std::int64_t width)> choose = {};
  bool to_the_end = true;  ///< whether damage outside of the rectangle is looked for
};

/// More pixels are refused: a header of some bytes may claim any number.
inline constexpr std::int64_t kMostPixels = 1 << 27;

enum class PictureFormat { none, jpeg, png };

/// By the first bytes of a file.
PictureFormat format_of(std::span<const std::uint8_t> bytes);

/// Decodes a rectangle of a JPEG or PNG file, and some pixels around it, upright as its Exif data say. Parts of a PNG
/// that can be seen through get a white ground. Where a JPEG has more than twice the pixels that are needed each way,
/// it is decoded at a half, a quarter or an eighth of its size. \param name of the file, for messages
/// \param part overwritten; its memory is used again
/// \throws DataError for other bytes, and for what is damaged, truncated or larger than kMostPixels
void decode_part(std::span<const std::uint8_t> bytes, const std::string& name, const DecodingRequest& request,
                 PicturePart& part);

/// Checks what can be told without decoding: headers, sizes, and that the file was not cut off.
/// \throws DataError as `decode_part`
void check_picture(std::span<const std::uint8_t> bytes, const std::string& name);

/// Memory for decoding a picture.
struct DecodingBytes {
  std::int64_t kept = 0;     ///< pixels, in memory that a thread keeps for the next picture
  std::int64_t working = 0;  ///< freed when the picture is decoded
};

/// About how much memory it takes to decode a picture to images of a form, told from its header; 0 where that is
/// damaged.
DecodingBytes decoding_bytes(std::span<const std::uint8_t> bytes, const ImageForm& form);

/// The orientation that Exif data give a picture, 1 to 8; 1, upright, where they do not. \param exif from the byte
/// order on: "II*\0" or "MM\0*"
int exif_orientation(std::span<const std::uint8_t> exif);

/// Turns a picture that is stored in one of Exif's orientations upright.
Picture upright(Picture stored, int orientation);

// What decoders share.

/// \throws DataError "NAME: what"
[[noreturn]] void fail_picture(const std::string& name, const std::string& what);

/// \throws DataError for pictures without pixels, or with too many
void require_pixels(const std::string& name, std::int64_t width, std::int64_t height);

/// The brightness of a colour, as in JPEG (ITU-R BT.601).
inline std::uint8_t brightness(std::uint32_t red, std::uint32_t green, std::uint32_t blue) {
  return static_cast<std::uint8_t>((19595 * red + 38470 * green + 7471 * blue + 0x8000) >> 16);
}

/// From red, green and blue to brightness.
void to_grey(Picture& picture);

/// A rectangle of an upright picture as it lies in the stored one of this size.
Box in_stored(const Box& box, int orientation, double width, double height);
/// The other way.
Box in_upright(const Box& box, int orientation, double width, double height);

/// All of a picture, or the rectangle that the request chooses, as it lies in the stored picture of this size.
Box chosen_box(const DecodingRequest& request, int orientation, std::int64_t width, std::int64_t height);

/// Not upright yet. \see decode_part
/// \return the orientation
int decode_jpeg(std::span<const std::uint8_t> bytes, const std::string& name, const DecodingRequest& request,
                PicturePart& part);
int decode_png(std::span<const std::uint8_t> bytes, const std::string& name, const DecodingRequest& request,
               PicturePart& part);
void check_jpeg(std::span<const std::uint8_t> bytes, const std::string& name);
void check_png(std::span<const std::uint8_t> bytes, const std::string& name);
DecodingBytes jpeg_decoding_bytes(std::span<const std::uint8_t> bytes, const ImageForm& form);
DecodingBytes png_decoding_bytes(std::span<const std::uint8_t> bytes);

}  // namespace unisono::data
