#pragma once

#include <vector>

#include "model/best.hpp"
#include "unisono/models/model.hpp"

namespace unisono::apply {

/// For each row in `asked`, the `top` other rows with the largest cosines, the largest first; of equals the lower row.
/// A zero vector is never a neighbour.
std::vector<std::vector<Scored>> nearest(const models::VectorTable& table, View parameters,
                                         const std::vector<Index>& asked, std::size_t top);

/// The cosine of two vectors; 0 if one of them is zero.
double cosine(View a, View b);

}  // namespace unisono::apply
