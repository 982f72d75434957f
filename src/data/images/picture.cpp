#include "images/picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

constexpr std::array<std::uint8_t, 3> kJpeg = {0xFF, 0xD8, 0xFF};
constexpr std::array<std::uint8_t, 8> kPng = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};

/// Numbers of a TIFF structure, in either byte order; 0 beyond its end.
class Tiff {
 public:
  explicit Tiff(std::span<const std::uint8_t> bytes) : bytes_(bytes), little_(!bytes.empty() && bytes[0] == 'I') {}
  std::uint32_t number(std::size_t at, std::size_t size) const {
    if (at > bytes_.size() || size > bytes_.size() - at) return 0;
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < size; ++i) value = value << 8 | bytes_[at + (little_ ? size - 1 - i : i)];
    return value;
  }

 private:
  std::span<const std::uint8_t> bytes_;
  bool little_;
};

/// How a stored picture is turned upright. 2: mirrored; 3: by half a turn; 4: upside down; 5 to 8: rows and columns
/// exchanged, and one, both or neither turned.
struct Turn {
  explicit Turn(int orientation)
      : exchanged(orientation >= 5 && orientation <= 8),
        from_right(orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8),
        from_below(orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7) {}
  bool exchanged, from_right, from_below;
};

Box exchanged(const Box& box) { return {box.top, box.left, box.height, box.width}; }

/// A rectangle of a picture of this size, as it lies where rows and columns are counted from the other ends.
Box mirrored(Box box, const Turn& turn, double width, double height) {
  if (turn.from_right) box.left = width - (box.left + box.width);
  if (turn.from_below) box.top = height - (box.top + box.height);
  return box;
}

[[noreturn]] void fail_format(std::span<const std::uint8_t> bytes, const std::string& name) {
  fail_picture(name, bytes.empty() ? "is empty" : "is neither a JPEG nor a PNG file");
}

}  // namespace

void fail_picture(const std::string& name, const std::string& what) {
  throw DataError(fmt::format("{}: {}", name, what));
}

void require_pixels(const std::string& name, std::int64_t width, std::int64_t height) {
  if (width > 0 && height > 0 && width <= kMostPixels / height) return;
  fail_picture(name, fmt::format("has {} × {} pixels; at most {} are read", width, height, grouped(kMostPixels)));
}

std::string problem_of(const ImageForm& form) {
  constexpr std::int64_t kMostValues = 1 << 26;
  if (!(form.centre > 0 && form.centre <= 1)) {
    return fmt::format("a share of {} of a picture's sides is not possible: above 0 and at most 1", form.centre);
  }
  if (form.height > 0 && form.width > 0 && form.width <= kMostValues / form.height / form.channels()) return "";
  return fmt::format("images of {} × {} are not possible: at least 1 and at most {} values", form.width, form.height,
                     grouped(kMostValues));
}

void require_size(const ImageForm& form) {
  if (const std::string problem = problem_of(form); !problem.empty()) throw DataError(problem);
}

void to_grey(Picture& picture) {
  std::size_t out = 0;
  for (std::size_t i = 0; i < picture.values.size(); i += 3) {
    picture.values[out++] = brightness(picture.values[i], picture.values[i + 1], picture.values[i + 2]);
  }
  picture.values.resize(out);
  picture.channels = 1;
}

PictureFormat format_of(std::span<const std::uint8_t> bytes) {
  const auto begins = [&](const auto& with) {
    return bytes.size() >= with.size() && std::equal(with.begin(), with.end(), bytes.begin());
  };
  return begins(kJpeg) ? PictureFormat::jpeg : begins(kPng) ? PictureFormat::png : PictureFormat::none;
}

void decode_part(std::span<const std::uint8_t> bytes, const std::string& name, const DecodingRequest& request,
                 PicturePart& part) {
  int orientation = 1;
  switch (format_of(bytes)) {
    case PictureFormat::none:
      fail_format(bytes, name);
    case PictureFormat::jpeg:
      orientation = decode_jpeg(bytes, name, request, part);
      break;
    case PictureFormat::png:
      orientation = decode_png(bytes, name, request, part);
  }
  if (orientation == 1) return;
  // From here on the part is the whole.
  part.box.left -= static_cast<double>(std::exchange(part.left, 0));
  part.box.top -= static_cast<double>(std::exchange(part.top, 0));
  const auto width = static_cast<double>(part.picture.width), height = static_cast<double>(part.picture.height);
  part.box = in_upright(part.box, orientation, width, height);
  part.picture = upright(std::move(part.picture), orientation);
}

void check_picture(std::span<const std::uint8_t> bytes, const std::string& name) {
  switch (format_of(bytes)) {
    case PictureFormat::none:
      fail_format(bytes, name);
    case PictureFormat::jpeg:
      return check_jpeg(bytes, name);
    case PictureFormat::png:
      return check_png(bytes, name);
  }
}

DecodingBytes decoding_bytes(std::span<const std::uint8_t> bytes, const ImageForm& form) {
  switch (format_of(bytes)) {
    case PictureFormat::none:
      return {};
    case PictureFormat::jpeg:
      return jpeg_decoding_bytes(bytes, form);
    case PictureFormat::png:
      return png_decoding_bytes(bytes);
  }
  return {};
}

int exif_orientation(std::span<const std::uint8_t> exif) {
  constexpr std::uint32_t kOrientation = 0x0112, kShort = 3;
  constexpr std::size_t kEntry = 12;
  if (exif.size() < 8 || exif[0] != exif[1] || (exif[0] != 'I' && exif[0] != 'M')) return 1;
  const Tiff tiff(exif);
  const std::size_t directory = tiff.number(4, 4), entries = tiff.number(directory, 2);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + i * kEntry;
    if (entry >= exif.size()) break;
    if (tiff.number(entry, 2) != kOrientation || tiff.number(entry + 2, 2) != kShort) continue;
    const std::uint32_t orientation = tiff.number(entry + 8, 2);
    return orientation >= 1 && orientation <= 8 ? static_cast<int>(orientation) : 1;
  }
  return 1;
}

Picture upright(Picture stored, int orientation) {
  if (orientation <= 1 || orientation > 8) return stored;
  const Turn turn(orientation);
  Picture turned{.height = turn.exchanged ? stored.width : stored.height,
                 .width = turn.exchanged ? stored.height : stored.width,
                 .channels = stored.channels};
  turned.values.reserve(stored.values.size());
  for (std::int64_t y = 0; y < turned.height; ++y) {
    for (std::int64_t x = 0; x < turned.width; ++x) {
      const std::int64_t row = turn.exchanged ? x : y, column = turn.exchanged ? y : x;
      const std::int64_t at_row = turn.from_below ? stored.height - 1 - row : row;
      const std::int64_t at_column = turn.from_right ? stored.width - 1 - column : column;
      const auto pixel = stored.values.begin() + (at_row * stored.width + at_column) * stored.channels;
      turned.values.insert(turned.values.end(), pixel, pixel + stored.channels);
    }
  }
  return turned;
}

Box in_stored(const Box& box, int orientation, double width, double height) {
  const Turn turn(orientation);
  return mirrored(turn.exchanged ? exchanged(box) : box, turn, width, height);
}

Box in_upright(const Box& box, int orientation, double width, double height) {
  const Turn turn(orientation);
  const Box turned = mirrored(box, turn, width, height);
  return turn.exchanged ? exchanged(turned) : turned;
}

Box chosen_box(const DecodingRequest& request, int orientation, std::int64_t width, std::int64_t height) {
  const bool lies = Turn(orientation).exchanged;
  const std::int64_t upright_width = lies ? height : width, upright_height = lies ? width : height;
  Box box{.width = static_cast<double>(upright_width), .height = static_cast<double>(upright_height)};
  if (request.choose) box = request.choose(upright_height, upright_width);
  return in_stored(box, orientation, static_cast<double>(width), static_cast<double>(height));
}

}  // namespace unisono::data
