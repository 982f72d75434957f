#pragma once

#include <string>
#include <vector>

#include "unisono/data/batch.hpp"

namespace unisono::data {

/// Draws images side by side as text, one character per pixel and per two rows, from blank (smallest value) to @
/// (largest). Wide images are reduced; channels are averaged.
/// \param images each [C, H, W]
std::string draw_images(const std::vector<std::vector<float>>& images, const FeatureShape& shape);

}  // namespace unisono::data
