#include "augment/augmentation.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "unisono/base/random.hpp"

namespace unisono::data {
namespace {

// Which uniform numbers the changes have. Movements have the first ones.
constexpr std::uint64_t kRotation = 16, kBrightness = 17, kContrast = 18, kSaturation = 19, kHue = 20, kErasing = 32,
                        kMixing = 64, kCrop = 128;
constexpr int kAttempts = 10;

/// The uniform numbers of an example.
class Draws {
 public:
  Draws(std::uint64_t seed, std::int64_t epoch, std::uint64_t example, std::uint64_t first)
      : random_(seed, Purpose::augmentation, example, static_cast<std::uint32_t>(epoch)) {
    random_.skip(first);
  }
  double next() { return double{random_.uniform()}; }
  /// From −1 to 1.
  double signed_next() { return 2 * next() - 1; }

 private:
  RandomStream random_;
};

std::int32_t draw_offset(std::int64_t most, RandomStream& random) {
  const auto drawn = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(2 * most + 1)));
  return static_cast<std::int32_t>(drawn - most);
}

/// One of `count` places.
std::int64_t place_of(double uniform, std::int64_t count) {
  return static_cast<std::int64_t>(std::floor(uniform * static_cast<double>(count)));
}

/// Zhong et al., "Random erasing data augmentation", AAAI 2020: a share of the area from 0.02 to 0.33, of an aspect
/// from 0.3 to 3.3.
std::optional<Patch> draw_patch(double probability, const FeatureShape& shape, Draws draws) {
  constexpr double kLeast = 0.02, kMost = 0.33, kFlattest = 0.3, kSteepest = 3.3;
  if (draws.next() >= probability) return std::nullopt;
  const auto area = static_cast<double>(shape.height * shape.width);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const double share = kLeast + (kMost - kLeast) * draws.next();
    const double aspect = kFlattest * std::pow(kSteepest / kFlattest, draws.next());
    const Index height = std::llround(std::sqrt(area * share * aspect));
    const Index width = std::llround(std::sqrt(area * share / aspect));
    const double down = draws.next(), right = draws.next();
    if (height < 1 || width < 1 || height >= shape.height || width >= shape.width) continue;
    return Patch{place_of(down, shape.height - height + 1), place_of(right, shape.width - width + 1), height, width};
  }
  return std::nullopt;
}

/// The pixels from `middle` − `length` / 2 to `middle` + `length` / 2, as far as there are any.
std::pair<Index, Index> cut_off(double middle, double length, Index count) {
  const auto pixel = [&](double at) { return std::clamp<Index>(std::llround(at), 0, count); };
  return {pixel(middle - length / 2), pixel(middle + length / 2)};
}

/// A part of the image with this share of its area around a place, cut off at the edges.
Patch patch_around(const FeatureShape& shape, double share, double down, double right) {
  const auto height = static_cast<double>(shape.height), width = static_cast<double>(shape.width);
  const auto [top, bottom] = cut_off(down * height, std::sqrt(share) * height, shape.height);
  const auto [left, end] = cut_off(right * width, std::sqrt(share) * width, shape.width);
  return {top, left, bottom - top, end - left};
}

/// out(x) = in(x + right), or zero.
void move_row(Index width, Index right, const float* in, float* out) {
  const Index first = std::clamp<Index>(-right, 0, width), last = std::clamp<Index>(width - right, first, width);
  std::fill(out, out + first, 0.0F);
  std::copy(in + first + right, in + last + right, out + first);
  std::fill(out + last, out + width, 0.0F);
}

/// The place in 0 … count − 1 where a place beyond the ends is reflected: −1 is 1, count is count − 2.
Index reflected(Index place, Index count) {
  if (count == 1) return 0;
  const Index period = 2 * (count - 1);
  const Index within = ((place % period) + period) % period;
  return within < count ? within : period - within;
}

/// One channel of an image that goes on beyond its edges.
class Plane {
 public:
  Plane(const FeatureShape& shape, const Outside& outside, const float* values, Index channel)
      : height_(shape.height),
        width_(shape.width),
        values_(values + channel * shape.height * shape.width),
        reflects_(outside.fill == Fill::reflect),
        outside_(reflects_ ? 0.0F : outside.values[static_cast<std::size_t>(channel)]) {}

  float at(Index y, Index x) const {
    const bool inside = y >= 0 && y < height_ && x >= 0 && x < width_;
    if (inside) return values_[y * width_ + x];
    return reflects_ ? values_[reflected(y, height_) * width_ + reflected(x, width_)] : outside_;
  }

 private:
  Index height_, width_;
  const float* values_;
  bool reflects_;
  float outside_;
};

constexpr std::array<float, 3> kBrightnessOf = {0.299F, 0.587F, 0.114F};  // of red, green and blue

/// The brightness of pixel i.
float grey_of(const float* image, Index channels, Index plane, Index i) {
  if (channels == 1) return image[i];
  return kBrightnessOf[0] * image[i] + kBrightnessOf[1] * image[plane + i] + kBrightnessOf[2] * image[2 * plane + i];
}

float blended(float factor, float value, float other) {
  return std::clamp(factor * value + (1 - factor) * other, 0.0F, 1.0F);
}

/// Goes on in the circle of hues by a part of it; brightness and saturation of the hexcone model (HSV) stay.
std::array<float, 3> turned_hue(const std::array<float, 3>& rgb, float part) {
  const auto [low, high] = std::minmax({rgb[0], rgb[1], rgb[2]});
  const float chroma = high - low;
  if (chroma <= 0) return rgb;
  float sector = high == rgb[0]   ? (rgb[1] - rgb[2]) / chroma
                 : high == rgb[1] ? (rgb[2] - rgb[0]) / chroma + 2
                                  : (rgb[0] - rgb[1]) / chroma + 4;
  sector += 6 * part;
  std::array<float, 3> turned{};
  for (std::size_t channel = 0; channel < 3; ++channel) {
    constexpr std::array<float, 3> kPlaces = {5, 3, 1};
    float place = std::fmod(kPlaces[channel] + sector, 6.0F);
    if (place < 0) place += 6;
    turned[channel] = high - chroma * std::clamp(std::min(place, 4 - place), 0.0F, 1.0F);
  }
  return turned;
}

}  // namespace

bool changes_colours(const AugmentationSettings& settings) {
  return settings.brightness > 0 || settings.contrast > 0 || settings.saturation > 0 || settings.hue > 0;
}

bool only_moves(const AugmentationSettings& settings) {
  return settings.crop_area == 1 && settings.rotation == 0 && settings.erasing == 0 && !changes_colours(settings) &&
         settings.fill == Fill::black;
}

bool changes_images(const AugmentationSettings& settings) {
  return settings.crop_padding > 0 || settings.shift > 0 || settings.horizontal_flip || settings.crop_area < 1 ||
         settings.rotation > 0 || settings.erasing > 0 || changes_colours(settings);
}

bool mixes_examples(const AugmentationSettings& settings) { return settings.mixup > 0 || settings.cutmix > 0; }

bool has_effect(const AugmentationSettings& settings) { return changes_images(settings) || mixes_examples(settings); }

Movement draw_movement(const AugmentationSettings& settings, std::uint64_t seed, std::int64_t epoch,
                       std::uint64_t example) {
  RandomStream random(seed, Purpose::augmentation, example, static_cast<std::uint32_t>(epoch));
  Movement movement;
  for (const std::int64_t most : {settings.crop_padding, settings.shift}) {
    if (most == 0) continue;
    movement.down += draw_offset(most, random);
    movement.right += draw_offset(most, random);
  }
  if (settings.horizontal_flip) movement.flipped = random.below(2) == 1;
  return movement;
}

Augmentation draw_augmentation(const AugmentationSettings& settings, const FeatureShape& shape, std::uint64_t seed,
                               std::int64_t epoch, std::uint64_t example) {
  const auto draws = [&](std::uint64_t first) { return Draws(seed, epoch, example, first); };
  const auto factor = [&](double most, std::uint64_t number) {
    const double low = std::max(0.0, 1 - most);
    return most == 0 ? 1.0F : static_cast<float>(low + (1 + most - low) * draws(number).next());
  };
  Augmentation drawn{.movement = draw_movement(settings, seed, epoch, example)};
  if (settings.rotation > 0) {
    drawn.degrees = static_cast<float>(settings.rotation * draws(kRotation).signed_next());
  }
  drawn.colours = {.brightness = factor(settings.brightness, kBrightness),
                   .contrast = factor(settings.contrast, kContrast),
                   .saturation = factor(settings.saturation, kSaturation)};
  if (settings.hue > 0) drawn.colours.hue = static_cast<float>(settings.hue * draws(kHue).signed_next());
  if (settings.erasing > 0) drawn.erased = draw_patch(settings.erasing, shape, draws(kErasing));
  return drawn;
}

Box draw_crop(const AugmentationSettings& settings, double aspect, std::uint64_t seed, std::int64_t epoch,
              std::uint64_t example, std::int64_t height, std::int64_t width) {
  Draws draws(seed, epoch, example, kCrop);
  const double area = static_cast<double>(height) * static_cast<double>(width);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const double share = settings.crop_area + (1 - settings.crop_area) * draws.next();
    const double shape = aspect * std::pow(settings.crop_aspect, draws.signed_next());
    const std::int64_t columns = std::llround(std::sqrt(area * share * shape));
    const std::int64_t rows = std::llround(std::sqrt(area * share / shape));
    const double right = draws.next(), down = draws.next();
    if (columns < 1 || rows < 1 || columns > width || rows > height) continue;
    return {.left = static_cast<double>(place_of(right, width - columns + 1)),
            .top = static_cast<double>(place_of(down, height - rows + 1)),
            .width = static_cast<double>(columns),
            .height = static_cast<double>(rows)};
  }
  const auto all_columns = static_cast<double>(width), all_rows = static_cast<double>(height);
  const double shape = std::clamp(all_columns / all_rows, aspect / settings.crop_aspect, aspect * settings.crop_aspect);
  const double columns = std::min(all_columns, all_rows * shape), rows = std::min(all_rows, all_columns / shape);
  return {.left = (all_columns - columns) / 2, .top = (all_rows - rows) / 2, .width = columns, .height = rows};
}

double symmetric_beta(double alpha, double u, double v) {
  const double cosine = std::cos(2 * std::numbers::pi * v);
  const double square = std::expm1(-std::log1p(-u) / alpha) * cosine * cosine;  // T² / 2α
  const double part = square > 0 ? 1 / (1 + 1 / square) : 0;
  return (1 + std::copysign(std::sqrt(part), cosine)) / 2;
}

Mixing draw_mixing(const AugmentationSettings& settings, const FeatureShape& shape, std::uint64_t seed,
                   std::int64_t epoch, std::uint64_t example) {
  Draws draws(seed, epoch, example, kMixing);
  const bool first_half = draws.next() < 0.5;
  const bool cuts = settings.cutmix > 0 && (settings.mixup == 0 || !first_half);
  const double u = draws.next(), v = draws.next();
  const double share = symmetric_beta(cuts ? settings.cutmix : settings.mixup, u, v);
  if (!cuts) return {.share = static_cast<float>(share)};
  const double down = draws.next(), right = draws.next();
  const Patch patch = patch_around(shape, 1 - share, down, right);
  const auto cut = static_cast<double>(patch.height * patch.width);
  return {.share = static_cast<float>(1 - cut / static_cast<double>(shape.height * shape.width)), .patch = patch};
}

void mix_features(const FeatureShape& shape, const Mixing& mixing, const float* own, const float* other, float* out) {
  const Index size = shape.size();
  if (!mixing.patch) {
    const float share = mixing.share, rest = 1 - share;
    for (Index i = 0; i < size; ++i) out[i] = share * own[i] + rest * other[i];
    return;
  }
  std::copy_n(own, size, out);
  const Patch& patch = *mixing.patch;
  for (Index channel = 0; channel < shape.channels; ++channel) {
    for (Index y = patch.top; y < patch.top + patch.height; ++y) {
      const Index at = (channel * shape.height + y) * shape.width + patch.left;
      std::copy_n(other + at, patch.width, out + at);
    }
  }
}

void move_image(const FeatureShape& shape, const Movement& movement, const float* in, float* out) {
  for (Index channel = 0; channel < shape.channels; ++channel) {
    const float* plane = in + channel * shape.height * shape.width;
    for (Index y = 0; y < shape.height; ++y, out += shape.width) {
      const Index from = y + movement.down;
      if (from < 0 || from >= shape.height) {
        std::fill(out, out + shape.width, 0.0F);
        continue;
      }
      move_row(shape.width, movement.right, plane + from * shape.width, out);
      if (movement.flipped) std::reverse(out, out + shape.width);
    }
  }
}

void move_image(const FeatureShape& shape, const Movement& movement, const Outside& outside, const float* in,
                float* out) {
  if (outside.fill == Fill::black) return move_image(shape, movement, in, out);
  for (Index channel = 0; channel < shape.channels; ++channel) {
    const Plane plane(shape, outside, in, channel);
    for (Index y = 0; y < shape.height; ++y, out += shape.width) {
      for (Index x = 0; x < shape.width; ++x) out[x] = plane.at(y + movement.down, x + movement.right);
      if (movement.flipped) std::reverse(out, out + shape.width);
    }
  }
}

void turn_image(const FeatureShape& shape, float degrees, const Outside& outside, const float* in, float* out) {
  const double angle = double{degrees} * std::numbers::pi / 180;
  const auto cosine = static_cast<float>(std::cos(angle)), sine = static_cast<float>(std::sin(angle));
  const float middle_y = static_cast<float>(shape.height - 1) / 2, middle_x = static_cast<float>(shape.width - 1) / 2;
  for (Index channel = 0; channel < shape.channels; ++channel) {
    const Plane plane(shape, outside, in, channel);
    for (Index y = 0; y < shape.height; ++y) {
      for (Index x = 0; x < shape.width; ++x) {
        const float down = static_cast<float>(y) - middle_y, right = static_cast<float>(x) - middle_x;
        const float from_y = middle_y + cosine * down + sine * right;
        const float from_x = middle_x + cosine * right - sine * down;
        const float top = std::floor(from_y), left = std::floor(from_x);
        const float below = from_y - top, beside = from_x - left;
        const auto row = static_cast<Index>(top), column = static_cast<Index>(left);
        const float upper = (1 - beside) * plane.at(row, column) + beside * plane.at(row, column + 1);
        const float lower = (1 - beside) * plane.at(row + 1, column) + beside * plane.at(row + 1, column + 1);
        *out++ = (1 - below) * upper + below * lower;
      }
    }
  }
}

void change_colours(const FeatureShape& shape, const ColourChange& change, float* image) {
  const Index plane = shape.height * shape.width;
  if (change.brightness != 1) {
    for (Index i = 0; i < shape.channels * plane; ++i) image[i] = blended(change.brightness, image[i], 0);
  }
  if (change.contrast != 1) {
    double sum = 0;
    for (Index i = 0; i < plane; ++i) sum += double{grey_of(image, shape.channels, plane, i)};
    const auto mean = static_cast<float>(sum / static_cast<double>(plane));
    for (Index i = 0; i < shape.channels * plane; ++i) image[i] = blended(change.contrast, image[i], mean);
  }
  if (shape.channels == 1 || (change.saturation == 1 && change.hue == 0)) return;
  for (Index i = 0; i < plane; ++i) {
    const float grey = grey_of(image, shape.channels, plane, i);
    std::array<float, 3> rgb{};
    for (std::size_t c = 0; c < 3; ++c) {
      rgb[c] = image[static_cast<Index>(c) * plane + i];
      if (change.saturation != 1) rgb[c] = blended(change.saturation, rgb[c], grey);
    }
    if (change.hue != 0) rgb = turned_hue(rgb, change.hue);
    for (std::size_t c = 0; c < 3; ++c) image[static_cast<Index>(c) * plane + i] = rgb[c];
  }
}

}  // namespace unisono::data
