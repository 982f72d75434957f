#include "run/label_counts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "run/rank_each.hpp"
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

void LabelCounts::rank(comm::Communicator& group) {
  const auto labels = static_cast<std::size_t>(figures_.counts.labels());
  const auto own_scores = [&](std::size_t k) {
    ScoresOfClass own;
    for (std::size_t at = k; at < targets_.size(); at += labels) {
      (targets_[at] > 0 ? own.positive : own.negative).push_back(probabilities_[at]);
    }
    return own;
  };
  figures_.ranking = rank_each(group, figures_.counts.labels(), own_scores, draws_ ? &figures_.curves : nullptr);
}

}  // namespace unisono::session
