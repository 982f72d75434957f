#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "unisono/comm/communicator.hpp"
#include "unisono/records/class_figures.hpp"

namespace unisono::session {

/// The scores of the examples that are not of a class, or do not have a label, and of those that are.
struct ScoresOfClass {
  std::vector<float> negative, positive;
};

/// The scores of this rank's examples for class or label k.
using OwnScores = std::function<ScoresOfClass(std::size_t k)>;

/// Ranks the examples by the scores of each of K classes or labels: each rank by every P-th, to which the
/// others send theirs. Collective.
/// \param curves all ranks make the curves of each; null: they are not wanted \return [K], the same on all ranks
std::vector<records::RankingFigures> rank_each(comm::Communicator& group, Index count, const OwnScores& own_scores,
                                               std::vector<records::RankingCurves>* curves);

}  // namespace unisono::session
