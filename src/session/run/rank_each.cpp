#include "run/rank_each.hpp"

#include <span>
#include <utility>

namespace unisono::session {

std::vector<records::RankingFigures> rank_each(comm::Communicator& group, Index count, const OwnScores& own_scores,
                                               std::vector<records::RankingCurves>* curves) {
  const auto classes = static_cast<std::size_t>(count);
  std::vector<double> found(2 * classes);
  for (std::size_t k = 0; k < classes; ++k) {
    const auto ranker = static_cast<int>(k % static_cast<std::size_t>(group.size()));
    const ScoresOfClass own = own_scores(k);
    const auto gather = [&](const std::vector<float>& values) {
      return curves != nullptr ? group.all_gather_joined(values) : group.gather_joined(values, ranker);
    };
    ScoresOfClass scores;
    scores.negative = gather(own.negative);
    scores.positive = gather(own.positive);
    if (curves != nullptr) curves->push_back(records::curves_of(scores.negative, scores.positive));
    if (ranker != group.rank()) continue;
    const records::RankingFigures one = records::rank_figures(std::move(scores.negative), std::move(scores.positive));
    found[2 * k] = one.roc_auc;
    found[2 * k + 1] = one.average_precision;
  }
  group.allreduce_sum(std::span(found));  // the others' are 0
  std::vector<records::RankingFigures> ranking;
  for (std::size_t k = 0; k < classes; ++k) ranking.push_back({found[2 * k], found[2 * k + 1]});
  return ranking;
}

}  // namespace unisono::session
