#include "dense/augmentation.hpp"

#include <algorithm>

#include "unisono/base/random.hpp"

namespace unisono::data {
namespace {

std::int32_t draw_offset(std::int64_t most, RandomStream& random) {
  const auto drawn = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(2 * most + 1)));
  return static_cast<std::int32_t>(drawn - most);
}

/// out(x) = in(x + right), or zero.
void move_row(Index width, Index right, const float* in, float* out) {
  const Index first = std::clamp<Index>(-right, 0, width), last = std::clamp<Index>(width - right, first, width);
  std::fill(out, out + first, 0.0F);
  std::copy(in + first + right, in + last + right, out + first);
  std::fill(out + last, out + width, 0.0F);
}

}  // namespace

bool has_effect(const AugmentationSettings& settings) {
  return settings.crop_padding > 0 || settings.shift > 0 || settings.horizontal_flip;
}

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

}  // namespace unisono::data
