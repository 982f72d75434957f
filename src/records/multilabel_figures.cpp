#include "unisono/records/multilabel_figures.hpp"

#include <cmath>
#include <limits>

namespace unisono::records {
namespace {

/// Undefined without a whole.
double defined_quotient(double part, double whole) {
  return whole == 0 ? std::numeric_limits<double>::quiet_NaN() : part / whole;
}

ClassFigures figures_from(std::int64_t support, std::int64_t predicted, std::int64_t hits) {
  const auto hit = static_cast<double>(hits), had = static_cast<double>(support), said = static_cast<double>(predicted);
  return {.precision = defined_quotient(hit, said),
          .recall = defined_quotient(hit, had),
          .f1 = defined_quotient(2 * hit, said + had),
          .support = support};
}

/// The mean of what is defined.
class DefinedMean {
 public:
  void add(double value) {
    if (std::isnan(value)) return;
    sum_ += value;
    ++count_;
  }
  double value() const { return defined_quotient(sum_, count_); }

 private:
  double sum_ = 0, count_ = 0;
};

}  // namespace

void MultilabelCounts::add(View probabilities, View targets) {
  const auto labels = static_cast<std::size_t>(labels_);
  for (std::size_t k = 0; k < labels; ++k) {
    const bool is_there = targets[k] > 0.5F, is_predicted = probabilities[k] > 0.5F;
    counts_[k] += is_there ? 1 : 0;
    counts_[labels + k] += is_predicted ? 1 : 0;
    counts_[2 * labels + k] += is_there && is_predicted ? 1 : 0;
  }
}

ClassFigures MultilabelCounts::of(Index label) const {
  return figures_from(support(label), predicted(label), hits(label));
}

ClassFigures MultilabelCounts::macro_mean() const {
  DefinedMean precision, recall, f1;
  std::int64_t support = 0;
  for (Index label = 0; label < labels_; ++label) {
    const ClassFigures one = of(label);
    precision.add(one.precision);
    recall.add(one.recall);
    f1.add(one.f1);
    support += one.support;
  }
  return {.precision = precision.value(), .recall = recall.value(), .f1 = f1.value(), .support = support};
}

ClassFigures MultilabelCounts::micro_mean() const {
  std::int64_t all = 0, all_predicted = 0, all_hits = 0;
  for (Index label = 0; label < labels_; ++label) {
    all += support(label);
    all_predicted += predicted(label);
    all_hits += hits(label);
  }
  return figures_from(all, all_predicted, all_hits);
}

std::vector<models::Metric> metrics_of(const MultilabelFigures& figures) {
  std::vector<models::Metric> metrics;
  const auto add = [&](std::string_view name, double value) {
    if (std::isfinite(value)) metrics.push_back(models::metric_of(name, value));
  };
  if (!figures.ranking.empty()) {
    const RankingFigures mean = mean_of(figures.ranking);
    add("auc", mean.roc_auc);
    if (!metrics.empty()) metrics.front().shown = false;
    add("average_precision", mean.average_precision);
    if (!metrics.empty()) metrics.back().shown = true;
  }
  const ClassFigures macro = figures.counts.macro_mean();
  add("precision", macro.precision);
  add("recall", macro.recall);
  add("f1", macro.f1);
  add("f1_micro", figures.counts.micro_mean().f1);
  return metrics;
}

std::vector<models::Metric> possible_multilabel_metrics() {
  constexpr float kYes = 1;
  MultilabelFigures figures{.counts = MultilabelCounts(1), .ranking = {{1, 1}}};
  figures.counts.add(View(&kYes, 1), View(&kYes, 1));
  return metrics_of(figures);
}

}  // namespace unisono::records
