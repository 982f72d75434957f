#pragma once

#include <cstdint>
#include <vector>

namespace unisono::experiment {

/// An example's score, and whether it is what the score is for.
struct RankedExample {
  float score = 0;
  bool positive = false;
};

/// What an order by scores is worth. NaN where all examples are positive, or none, or a score is no number.
struct RankingFigures {
  double roc_auc = 0;  ///< share of the pairs of a positive and a negative example of which the positive one has the
                       ///< higher score; equal scores count half
  double average_precision = 0;  ///< Σ (R_i − R_{i−1}) P_i over the distinct scores as thresholds, from the highest on;
                                 ///< without interpolation
};

/// Both figures of one order; O(n log n). As scikit-learn's roc_auc_score and average_precision_score.
RankingFigures rank_figures(std::vector<RankedExample> examples);

}  // namespace unisono::experiment
