#pragma once

#include <vector>

namespace unisono::experiment {

/// Spearman's ρ: Pearson's correlation of the ranks, equal values sharing the mean of theirs. NaN where one of them
/// never varies.
double spearman(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace unisono::experiment
