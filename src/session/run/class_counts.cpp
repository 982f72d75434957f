#include "run/class_counts.hpp"

#include <utility>

#include "run/rank_each.hpp"

namespace unisono::session {

ClassCounts::ClassCounts(const records::ClassReading& reading, Wish wish)
    : reading_(reading),
      without_threshold_(reading),
      wish_(wish),
      figures_{.matrix = records::ConfusionMatrix(reading.classes, wish.cells)} {
  if (!wish.predictions) reading_.probabilities = false;
  without_threshold_.threshold.reset();
  if (reading_.probabilities) figures_.calibration.emplace();
}

void ClassCounts::read(View rows, View answers, View scores) {
  const std::size_t outputs = answers.empty() ? 1 : rows.size() / answers.size();
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const auto label = static_cast<std::int32_t>(answers[i]);
    if (static_cast<float>(label) != answers[i] || label < 0 || label >= reading_.classes) {
      are_classes_ = false;
      return;
    }
    const View row = rows.subspan(i * outputs, outputs);
    figures_.matrix.add(label, reading_.class_of(row));
    if (figures_.calibration) figures_.calibration->add(row, label, without_threshold_.class_of(row));
    if (wish_.threshold) (label == 1 ? positive_outputs_ : negative_outputs_).push_back(row.back());
    if (wish_.ranking) keep_scores(row, label, scores.empty() ? nullptr : &scores[i]);
  }
}

void ClassCounts::keep_scores(View row, std::int32_t label, const float* score) {
  if (reading_.classes == 2) {
    (label == 1 ? positive_ : negative_).push_back(score != nullptr ? *score : row.back());
  } else {
    labels_.push_back(label);
    rows_.insert(rows_.end(), row.begin(), row.end());
  }
}

std::optional<records::ClassificationFigures> ClassCounts::figures(comm::Communicator& group) {
  if (group.max(are_classes_ ? 0 : 1) > 0) return std::nullopt;
  group.allreduce_sum(figures_.matrix.counts());
  if (figures_.calibration) group.allreduce_sum(figures_.calibration->sums());
  if (wish_.ranking && reading_.classes == 2) {
    std::vector<float> negative = group.all_gather_joined(negative_), positive = group.all_gather_joined(positive_);
    if (wish_.curves) figures_.curves = {records::curves_of(negative, positive)};
    figures_.ranking = {records::rank_figures(std::move(negative), std::move(positive))};
  } else if (wish_.ranking) {
    rank_more(group);
  }
  return std::move(figures_);
}

std::optional<records::ChosenThreshold> ClassCounts::threshold(comm::Communicator& group,
                                                               std::string_view metric) const {
  return records::best_threshold(group.all_gather_joined(negative_outputs_), group.all_gather_joined(positive_outputs_),
                                 metric, reading_.probabilities ? 0.5 : 0);
}

void ClassCounts::rank_more(comm::Communicator& group) {
  const auto classes = static_cast<std::size_t>(reading_.classes);
  const auto own_scores = [&](std::size_t k) {
    ScoresOfClass own;
    for (std::size_t i = 0; i < labels_.size(); ++i) {
      (labels_[i] == static_cast<std::int32_t>(k) ? own.positive : own.negative).push_back(rows_[i * classes + k]);
    }
    return own;
  };
  figures_.ranking = rank_each(group, reading_.classes, own_scores, wish_.curves ? &figures_.curves : nullptr);
}

}  // namespace unisono::session
