#include "figures/ranking.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace unisono::apply {

RankingFigures rank_figures(std::vector<RankedExample> examples) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const auto is_positive = [](const RankedExample& one) { return one.positive; };
  const auto is_nan = [](const RankedExample& one) { return std::isnan(one.score); };
  const auto positives = static_cast<double>(std::count_if(examples.begin(), examples.end(), is_positive));
  const double negatives = static_cast<double>(examples.size()) - positives;
  if (positives == 0 || negatives == 0 || std::any_of(examples.begin(), examples.end(), is_nan)) return {kNone, kNone};

  std::sort(examples.begin(), examples.end(),
            [](const RankedExample& a, const RankedExample& b) { return a.score > b.score; });
  double above = 0, negatives_above = 0;  // examples with a higher score that are positive, and that are not
  double pairs = 0, precision_sum = 0;    // pairs in order; Σ (positives of a score) · precision
  for (auto first = examples.begin(); first != examples.end();) {
    const auto last =
        std::find_if(first, examples.end(), [&](const RankedExample& one) { return one.score != first->score; });
    const auto tied_positives = static_cast<double>(std::count_if(first, last, is_positive));
    const double tied_negatives = static_cast<double>(last - first) - tied_positives;
    pairs += tied_negatives * (above + tied_positives / 2);
    above += tied_positives;
    negatives_above += tied_negatives;
    precision_sum += tied_positives * above / (above + negatives_above);
    first = last;
  }
  return {.roc_auc = pairs / positives / negatives, .average_precision = precision_sum / positives};
}

}  // namespace unisono::apply
