#include "describe/picture.hpp"

#include <algorithm>

namespace unisono::data {
namespace {

constexpr std::string_view kShades = " .:-=+*#%@";
constexpr Index kWidest = 32;       // characters an image
constexpr Index kLineLength = 118;  // characters

/// Mean over the channels of the pixels [y0, y1) × [x0, x1).
float mean_of(const std::vector<float>& image, const FeatureShape& shape, Index y0, Index y1, Index x0, Index x1) {
  double sum = 0;
  for (Index c = 0; c < shape.channels; ++c) {
    for (Index y = y0; y < y1; ++y) {
      for (Index x = x0; x < x1; ++x) sum += image[static_cast<std::size_t>((c * shape.height + y) * shape.width + x)];
    }
  }
  return static_cast<float>(sum / static_cast<double>(shape.channels * (y1 - y0) * (x1 - x0)));
}

char shade_of(float value, float low, float high) {
  const float share = high > low ? (value - low) / (high - low) : 0.0F;
  const auto last = static_cast<float>(kShades.size() - 1);
  return kShades[static_cast<std::size_t>(std::clamp(share * last + 0.5F, 0.0F, last))];
}

std::string shade_row(const std::vector<float>& image, const FeatureShape& shape, Index top, Index reduction) {
  const auto [low, high] = std::minmax_element(image.begin(), image.end());
  std::string line;
  const Index bottom = std::min(top + 2 * reduction, shape.height);
  for (Index left = 0; left < shape.width; left += reduction) {
    const Index right = std::min(left + reduction, shape.width);
    line += shade_of(mean_of(image, shape, top, bottom, left, right), *low, *high);
  }
  return line;
}

}  // namespace

std::string draw_images(const std::vector<std::vector<float>>& images, const FeatureShape& shape) {
  const Index reduction = (shape.width + kWidest - 1) / kWidest, columns = (shape.width + reduction - 1) / reduction;
  const auto fitting = static_cast<std::size_t>(std::max<Index>(1, (kLineLength + 1) / (columns + 1)));
  std::string text;
  for (Index top = 0; top < shape.height; top += 2 * reduction) {
    std::string line;
    for (std::size_t i = 0; i < std::min(images.size(), fitting); ++i) {
      line += (i > 0 ? "|" : "") + shade_row(images[i], shape, top, reduction);
    }
    text += line + "\n";
  }
  return text;
}

}  // namespace unisono::data
