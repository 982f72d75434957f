#pragma once

#include <vector>

#include "apply/best.hpp"
#include "unisono/models/model.hpp"

namespace unisono::experiment {

/// For each row asked for, the `top` others with the largest cosines, the largest first; of equals the lower row. A
/// vector of zeros is nobody's neighbour.
std::vector<std::vector<Scored>> nearest(const models::VectorTable& table, View parameters,
                                         const std::vector<Index>& asked, std::size_t top);

/// 0 where one of them has no length.
double cosine(View a, View b);

}  // namespace unisono::experiment
