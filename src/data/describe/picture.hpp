#pragma once

#include <string>
#include <vector>

#include "unisono/data/batch.hpp"

namespace unisono::data {

/// Images side by side, a character a pixel and half its height, from blank (least) to @ (most); wide ones are reduced.
/// Channels are averaged.
/// \param images each [C, H, W]
std::string draw_images(const std::vector<std::vector<float>>& images, const FeatureShape& shape);

}  // namespace unisono::data
