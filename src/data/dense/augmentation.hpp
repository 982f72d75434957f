#pragma once

#include <cstdint>

#include "unisono/data/dataset.hpp"
#include "unisono/tensor/features.hpp"

namespace unisono::data {

/// Whether the settings ask for any augmentation.
bool has_effect(const AugmentationSettings& settings);

/// Draws an example's augmentation: a function of (seed, epoch, example) alone. A random crop of the padded image is a
/// shift by at most the padding.
Movement draw_movement(const AugmentationSettings& settings, std::uint64_t seed, std::int64_t epoch,
                       std::uint64_t example);

/// Applies a movement to an image. \param in, out [C, H, W]
void move_image(const FeatureShape& shape, const Movement& movement, const float* in, float* out);

}  // namespace unisono::data
