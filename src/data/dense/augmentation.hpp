#pragma once

#include <cstdint>

#include "unisono/data/dataset.hpp"
#include "unisono/tensor/features.hpp"

namespace unisono::data {

bool has_effect(const AugmentationSettings& settings);

/// A function of (seed, epoch, example) alone. A crop out of a padded image moves it by at most the padding.
Movement draw_movement(const AugmentationSettings& settings, std::uint64_t seed, std::int64_t epoch,
                       std::uint64_t example);

/// \param in, out [C, H, W]
void move_image(const FeatureShape& shape, const Movement& movement, const float* in, float* out);

}  // namespace unisono::data
