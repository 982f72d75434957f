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

/// Gathers the scores of all ranks' examples for class or label k. Collective. \param is_needed whether this rank looks
/// at the result
using GatherScores = std::function<ScoresOfClass(std::size_t k, bool is_needed)>;

/// Ranks the examples by the scores of each of K classes or labels: each rank by every P-th. Collective.
/// \param curves all ranks make the curves of each; null: they are not wanted \return [K], the same on all ranks
std::vector<records::RankingFigures> rank_each(comm::Communicator& group, Index count, const GatherScores& gather,
                                               std::vector<records::RankingCurves>* curves);

}  // namespace unisono::session
