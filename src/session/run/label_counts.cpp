#include "run/label_counts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "unisono/base/errors.hpp"

namespace unisono::session {

void LabelCounts::read(View rows, View answers, View) {
  const auto labels = static_cast<std::size_t>(figures_.counts.labels());
  are_labels_ = are_labels_ && std::ranges::all_of(answers, [](float target) { return target == 0 || target == 1; });
  for (std::size_t first = 0; first < answers.size(); first += labels) {
    figures_.counts.add(rows.subspan(first, labels), answers.subspan(first, labels));
  }
  if (!ranks_) return;
  probabilities_.insert(probabilities_.end(), rows.begin(), rows.end());
  for (const float target : answers) targets_.push_back(target > 0.5F ? 1 : 0);
}

records::MultilabelFigures LabelCounts::figures(comm::Communicator& group, const std::string& set) {
  if (group.max(are_labels_ ? 0 : 1) > 0) {
    throw DataError(
        fmt::format("{}: some targets are neither 0 nor 1, but the model was trained to predict labels", set));
  }
  group.allreduce_sum(figures_.counts.counts());
  if (ranks_) rank(group);
  return std::move(figures_);
}

/// Each rank ranks the examples by every P-th label; all make the curves of each.
void LabelCounts::rank(comm::Communicator& group) {
  const auto labels = static_cast<std::size_t>(figures_.counts.labels());
  std::vector<double> found(2 * labels);
  for (std::size_t k = 0; k < labels; ++k) {
    std::vector<float> negative, positive;
    for (std::size_t at = k; at < targets_.size(); at += labels) {
      (targets_[at] > 0 ? positive : negative).push_back(probabilities_[at]);
    }
    negative = group.all_gather_joined(negative);
    positive = group.all_gather_joined(positive);
    if (draws_) figures_.curves.push_back(records::curves_of(negative, positive));
    if (static_cast<int>(k % static_cast<std::size_t>(group.size())) != group.rank()) continue;
    const records::RankingFigures one = records::rank_figures(std::move(negative), std::move(positive));
    found[2 * k] = one.roc_auc;
    found[2 * k + 1] = one.average_precision;
  }
  group.allreduce_sum(std::span(found));  // the others' are 0
  for (std::size_t k = 0; k < labels; ++k) figures_.ranking.push_back({found[2 * k], found[2 * k + 1]});
}

}  // namespace unisono::session
