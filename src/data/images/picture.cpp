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

/// Where in a picture lies what a scaled one shows.
struct Box {
  double left = 0, top = 0, width = 0, height = 0;
};

/// The weights of the pixels that one pixel of the scaled picture is the mean of.
struct Weights {
  std::int64_t first = 0;
  std::vector<float> values;
};

/// Along one axis. \param length pixels of the picture \param begin, extent the part of it that is scaled to `count`
std::vector<Weights> weights_of(std::int64_t length, double begin, double extent, std::int64_t count) {
  const double scale = extent / static_cast<double>(count), width = std::max(1.0, scale);
  std::vector<Weights> all;
  for (std::int64_t i = 0; i < count; ++i) {
    const double centre = begin + (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<std::int64_t>(0, std::llround(std::floor(centre - width + 0.5)));
    const auto last = std::min<std::int64_t>(length, std::llround(std::floor(centre + width + 0.5)));
    Weights weights{.first = first, .values = {}};
    double sum = 0;
    std::vector<double> values;
    for (std::int64_t j = first; j < last; ++j) {
      values.push_back(std::max(0.0, 1 - std::abs(static_cast<double>(j) + 0.5 - centre) / width));
      sum += values.back();
    }
    for (const double value : values) weights.values.push_back(static_cast<float>(value / sum));
    all.push_back(std::move(weights));
  }
  return all;
}

/// Rows of the picture, scaled along their length: [height, count, channels].
std::vector<float> scaled_rows(const Picture& picture, const std::vector<Weights>& columns) {
  const auto channels = static_cast<std::size_t>(picture.channels), width = static_cast<std::size_t>(picture.width);
  std::vector<float> rows(static_cast<std::size_t>(picture.height) * columns.size() * channels);
  float* out = rows.data();
  for (std::int64_t y = 0; y < picture.height; ++y) {
    const std::uint8_t* const row = picture.values.data() + static_cast<std::size_t>(y) * width * channels;
    for (const Weights& weights : columns) {
      const std::uint8_t* const pixels = row + static_cast<std::size_t>(weights.first) * channels;
      for (std::size_t channel = 0; channel < channels; ++channel) {
        float sum = 0;
        for (std::size_t i = 0; i < weights.values.size(); ++i) {
          sum += weights.values[i] * static_cast<float>(pixels[i * channels + channel]);
        }
        *out++ = sum;
      }
    }
  }
  return rows;
}

/// What of the picture is shown, and in how many rows and columns of the form.
struct Placing {
  Box box;
  std::int64_t width = 0, height = 0;
};

Placing place(const Picture& picture, const ImageForm& form) {
  const auto width = static_cast<double>(picture.width), height = static_cast<double>(picture.height);
  const double of_form = static_cast<double>(form.width) / static_cast<double>(form.height);
  const bool is_wider = width / height > of_form;
  Placing placing{.box = {.width = width, .height = height}, .width = form.width, .height = form.height};
  if (form.fit == Fit::crop) {
    (is_wider ? placing.box.width : placing.box.height) = is_wider ? height * of_form : width / of_form;
    placing.box.left = (width - placing.box.width) / 2;
    placing.box.top = (height - placing.box.height) / 2;
  } else if (form.fit == Fit::pad) {
    const double scale = is_wider ? static_cast<double>(form.width) / width : static_cast<double>(form.height) / height;
    placing.width = std::clamp<std::int64_t>(std::llround(scale * width), 1, form.width);
    placing.height = std::clamp<std::int64_t>(std::llround(scale * height), 1, form.height);
  }
  return placing;
}

}  // namespace

void fail_picture(const std::string& name, const std::string& what) {
  throw DataError(fmt::format("{}: {}", name, what));
}

void require_pixels(const std::string& name, std::int64_t width, std::int64_t height) {
  if (width > 0 && height > 0 && width <= kMostPixels / height) return;
  fail_picture(name, fmt::format("has {} × {} pixels; at most {} are read", width, height, grouped(kMostPixels)));
}

void require_size(const ImageForm& form) {
  constexpr std::int64_t kMostValues = 1 << 26;
  const bool fits = form.height > 0 && form.width > 0 && form.width <= kMostValues / form.height / form.channels();
  if (fits) return;
  throw DataError(fmt::format("images of {} × {} are not possible: at least 1 and at most {} values", form.width,
                              form.height, grouped(kMostValues)));
}

PictureFormat format_of(std::span<const std::uint8_t> bytes) {
  const auto begins = [&](const auto& with) {
    return bytes.size() >= with.size() && std::equal(with.begin(), with.end(), bytes.begin());
  };
  return begins(kJpeg) ? PictureFormat::jpeg : begins(kPng) ? PictureFormat::png : PictureFormat::none;
}

Picture decode_picture(std::span<const std::uint8_t> bytes, const std::string& name, const ImageForm& size) {
  const PictureFormat format = format_of(bytes);
  if (format == PictureFormat::none)
    fail_picture(name, bytes.empty() ? "is empty" : "is neither a JPEG nor a PNG file");
  int orientation = 1;
  Picture stored = format == PictureFormat::jpeg ? decode_jpeg(bytes, name, size, orientation)
                                                 : decode_png(bytes, name, size.colours, orientation);
  return upright(std::move(stored), orientation);
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
  // 2: mirrored; 3: by half a turn; 4: upside down; 5 to 8: rows and columns exchanged, and one, both or neither
  // turned.
  const bool exchanged = orientation >= 5;
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_below = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  Picture turned{.height = exchanged ? stored.width : stored.height,
                 .width = exchanged ? stored.height : stored.width,
                 .channels = stored.channels};
  turned.values.reserve(stored.values.size());
  for (std::int64_t y = 0; y < turned.height; ++y) {
    for (std::int64_t x = 0; x < turned.width; ++x) {
      const std::int64_t row = exchanged ? x : y, column = exchanged ? y : x;
      const std::int64_t at_row = from_below ? stored.height - 1 - row : row;
      const std::int64_t at_column = from_right ? stored.width - 1 - column : column;
      const auto pixel = stored.values.begin() + (at_row * stored.width + at_column) * stored.channels;
      turned.values.insert(turned.values.end(), pixel, pixel + stored.channels);
    }
  }
  return turned;
}

std::vector<std::uint8_t> scaled(const Picture& picture, const ImageForm& form) {
  const Placing placing = place(picture, form);
  const std::vector<Weights> columns = weights_of(picture.width, placing.box.left, placing.box.width, placing.width);
  const std::vector<Weights> lines = weights_of(picture.height, placing.box.top, placing.box.height, placing.height);
  const std::vector<float> rows = scaled_rows(picture, columns);
  const auto channels = static_cast<std::size_t>(picture.channels), width = static_cast<std::size_t>(placing.width);
  const std::int64_t left = (form.width - placing.width) / 2, top = (form.height - placing.height) / 2;
  std::vector<std::uint8_t> values(static_cast<std::size_t>(form.bytes()));
  for (std::size_t y = 0; y < lines.size(); ++y) {
    const Weights& weights = lines[y];
    for (std::size_t x = 0; x < width; ++x) {
      for (std::size_t channel = 0; channel < channels; ++channel) {
        const float* const column =
            rows.data() + (static_cast<std::size_t>(weights.first) * width + x) * channels + channel;
        float sum = 0;
        for (std::size_t i = 0; i < weights.values.size(); ++i) sum += weights.values[i] * column[i * width * channels];
        const auto row = static_cast<std::size_t>(top) + y, at = static_cast<std::size_t>(left) + x;
        const auto plane = static_cast<std::size_t>(form.height * form.width);
        values[channel * plane + row * static_cast<std::size_t>(form.width) + at] =
            static_cast<std::uint8_t>(std::clamp(sum + 0.5F, 0.0F, 255.0F));
      }
    }
  }
  return values;
}

}  // namespace unisono::data
