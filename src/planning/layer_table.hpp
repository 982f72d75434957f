#pragma once

#include <string>
#include <vector>

#include "unisono/models/model.hpp"

namespace unisono::planning {

/// A line for each layer. Of repetitions that are alike, one after the other, the first stands for all of them:
/// "repeat1.1…6.dense1".
std::string layer_table(const std::vector<models::LayerSummary>& layers);

}  // namespace unisono::planning
