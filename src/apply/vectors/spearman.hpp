#pragma once

#include <vector>

namespace unisono::apply {

/// Spearman's ρ: Pearson's correlation of the ranks; equal values get their mean rank. NaN if a or b is constant.
double spearman(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace unisono::apply
