#pragma once

#include <cstdint>
#include <vector>

namespace unisono::apply {

/// An example's score for a class, and whether it belongs to the class.
struct RankedExample {
  float score = 0;
  bool positive = false;
};

/// How well the scores rank positive before negative examples. NaN if all examples are positive, or none, or a score is
/// NaN.
struct RankingFigures {
  double roc_auc = 0;  ///< share of the pairs of a positive and a negative example of which the positive one has the
                       ///< higher score; equal scores count half
  double average_precision = 0;  ///< Σ (R_i − R_{i−1}) P_i over the distinct scores as thresholds, from the highest on;
                                 ///< without interpolation
};

/// Computes both in O(n log n), as scikit-learn's roc_auc_score and average_precision_score.
RankingFigures rank_figures(std::vector<RankedExample> examples);

}  // namespace unisono::apply
