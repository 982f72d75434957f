#include "unisono/records/class_figures.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

namespace unisono::records {
namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

double quotient(double part, double whole) { return whole == 0 ? 0 : part / whole; }

void add(ClassFigures& sum, const ClassFigures& one, double weight) {
  sum.precision += weight * one.precision;
  sum.recall += weight * one.recall;
  sum.f1 += weight * one.f1;
  sum.support += one.support;
}

ClassFigures divided(const ClassFigures& sum, double weights) {
  return {.precision = quotient(sum.precision, weights),
          .recall = quotient(sum.recall, weights),
          .f1 = quotient(sum.f1, weights),
          .support = sum.support};
}

}  // namespace

ConfusionMatrix::ConfusionMatrix(Index classes, bool cells)
    : classes_(classes),
      has_cells_(cells && classes <= kMostClasses),
      counts_(at(classes * (3 + (has_cells_ ? classes : 0)))) {}

void ConfusionMatrix::add(std::int32_t truth, std::int32_t predicted) {
  ++counts_[at(truth)];
  ++counts_[at(classes_ + predicted)];
  if (truth == predicted) ++counts_[at(2 * classes_ + truth)];
  if (has_cells()) ++counts_[at(3 * classes_ + truth * classes_ + predicted)];
}

ClassFigures ConfusionMatrix::of(Index label) const {
  if (is_untrained(label))
    return {.precision = kUndefined, .recall = kUndefined, .f1 = kUndefined, .support = support(label)};
  const auto hit = static_cast<double>(hits(label));
  const auto labelled = static_cast<double>(support(label)), said = static_cast<double>(predicted(label));
  return {.precision = quotient(hit, said),
          .recall = quotient(hit, labelled),
          .f1 = quotient(2 * hit, said + labelled),
          .support = support(label)};
}

/// A mean is undefined where all examples are of untrained classes. \param count of the others
ClassFigures ConfusionMatrix::defined(const ClassFigures& mean, std::int64_t count) const {
  const bool is_undefined = count == 0 && !untrained_.empty();
  return is_undefined ? ClassFigures{.precision = kUndefined, .recall = kUndefined, .f1 = kUndefined} : mean;
}

ClassFigures ConfusionMatrix::macro_mean() const {
  ClassFigures sum;
  std::int64_t occurring = 0;
  for (Index label = 0; label < classes_; ++label) {
    if (support(label) + predicted(label) == 0 || is_untrained(label)) continue;
    ++occurring;
    unisono::records::add(sum, of(label), 1);
  }
  return defined(divided(sum, static_cast<double>(occurring)), sum.support);
}

double ConfusionMatrix::accuracy() const {
  std::int64_t right = 0, examples = 0;
  for (Index label = 0; label < classes_; ++label) {
    right += hits(label);
    examples += support(label);
  }
  return examples == 0 ? kUndefined : static_cast<double>(right) / static_cast<double>(examples);
}

double ConfusionMatrix::balanced_accuracy() const {
  double recalls = 0, classes = 0;
  for (Index label = 0; label < classes_; ++label) {
    if (support(label) == 0 || is_untrained(label)) continue;
    recalls += of(label).recall;
    ++classes;
  }
  return classes == 0 ? kUndefined : recalls / classes;
}

ClassFigures ConfusionMatrix::weighted_mean() const {
  ClassFigures sum;
  for (Index label = 0; label < classes_; ++label) {
    if (!is_untrained(label)) unisono::records::add(sum, of(label), static_cast<double>(support(label)));
  }
  return defined(divided(sum, static_cast<double>(sum.support)), sum.support);
}

namespace {

/// The position of the largest value, the first of equals.
std::ptrdiff_t first_of_largest(View row) {
  constexpr std::size_t kLanes = 8;
  if (row.size() < 2 * kLanes) return std::max_element(row.begin(), row.end()) - row.begin();
  // Lanes of their own, which the compiler puts into vectors.
  std::array<float, kLanes> largest{};
  std::copy_n(row.begin(), kLanes, largest.begin());
  const std::size_t whole = row.size() - row.size() % kLanes;
  for (std::size_t first = kLanes; first < whole; first += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      largest[lane] = row[first + lane] > largest[lane] ? row[first + lane] : largest[lane];
    }
  }
  const float of_rest = *std::max_element(row.end() - kLanes, row.end());
  const float of_all = std::max(of_rest, *std::max_element(largest.begin(), largest.end()));
  const auto found = std::find(row.begin(), row.end(), of_all);
  return found == row.end() ? 0 : found - row.begin();  // all are NaN
}

}  // namespace

std::int32_t ClassReading::class_of(View row) const {
  if (threshold && classes == 2) return static_cast<double>(row.back()) >= *threshold ? 1 : 0;
  if (row.size() == 1) return row.front() > (probabilities ? 0.5F : 0.0F) ? 1 : 0;
  return static_cast<std::int32_t>(first_of_largest(row));
}

namespace {

// A sum takes two words: units of 2⁻⁹ and of 2⁻⁴⁰. The numbers are below 2²², so that 2³¹ of them do not overflow.
constexpr double kUnits = 0x1p40;
constexpr unsigned kLowBits = 31;

void add_number(double number, std::int64_t* words) {
  const auto units = static_cast<std::int64_t>(number * kUnits + 0.5);
  words[0] += units >> kLowBits;
  words[1] += units & ((std::int64_t{1} << kLowBits) - 1);
}

double number_from(const std::int64_t* words) {
  return (std::ldexp(static_cast<double>(words[0]), kLowBits) + static_cast<double>(words[1])) / kUnits;
}

constexpr std::size_t kBinWords = 4, kExamples = kBinWords * Calibration::kBins, kSquares = kExamples + 1,
                      kLosses = kSquares + 2, kNaNs = kLosses + 2, kWords = kNaNs + 1;

double square(double x) { return x * x; }

double log_loss_part(double probability) {
  constexpr double kLeast = 0x1p-23;
  return -std::log(std::clamp(probability, kLeast, 1 - kLeast));
}

}  // namespace

Calibration::Calibration() : sums_(kWords) {}

void Calibration::add(View row, std::int32_t label, std::int32_t predicted) {
  const double confidence = probability_of(row, predicted), squares = brier_part(row, label);
  ++sums_[kExamples];
  if (std::isnan(squares)) {
    ++sums_[kNaNs];
    return;
  }
  const double place = std::ceil(confidence * kBins) - 1;
  const auto bin = static_cast<std::size_t>(std::clamp(place, 0.0, kBins - 1.0)) * kBinWords;
  ++sums_[bin];
  sums_[bin + 1] += label == predicted ? 1 : 0;
  add_number(confidence, &sums_[bin + 2]);
  add_number(squares, &sums_[kSquares]);
  add_number(log_loss_part(probability_of(row, label)), &sums_[kLosses]);
}

Calibration::Bin Calibration::bin(int b) const {
  const std::size_t first = static_cast<std::size_t>(b) * kBinWords;
  const auto examples = static_cast<double>(sums_[first]);
  if (examples == 0) return {.examples = 0, .confidence = kUndefined, .accuracy = kUndefined};
  return {.examples = examples,
          .confidence = number_from(&sums_[first + 2]) / examples,
          .accuracy = static_cast<double>(sums_[first + 1]) / examples};
}

double Calibration::expected_error() const {
  if (sums_[kExamples] == 0 || sums_[kNaNs] > 0) return kUndefined;
  double error = 0;
  for (int b = 0; b < kBins; ++b) {
    const Bin one = bin(b);
    if (one.examples > 0) error += one.examples * std::abs(one.accuracy - one.confidence);
  }
  return error / static_cast<double>(sums_[kExamples]);
}

double Calibration::mean(std::size_t at) const {
  if (sums_[kExamples] == 0 || sums_[kNaNs] > 0) return kUndefined;
  return number_from(&sums_[at]) / static_cast<double>(sums_[kExamples]);
}

double Calibration::brier_score() const { return mean(kSquares); }
double Calibration::log_loss() const { return mean(kLosses); }

double probability_of(View probabilities, std::int32_t label) {
  const auto k = static_cast<std::size_t>(label);
  if (probabilities.size() > 1) return static_cast<double>(probabilities[k]);
  return label == 1 ? static_cast<double>(probabilities[0]) : 1 - static_cast<double>(probabilities[0]);
}

double brier_part(View probabilities, std::int32_t label) {
  if (probabilities.size() <= 2) return square(static_cast<double>(probabilities.back()) - label);
  double sum = 0;
  for (std::size_t k = 0; k < probabilities.size(); ++k) {
    sum += square(static_cast<double>(probabilities[k]) - (k == static_cast<std::size_t>(label) ? 1 : 0));
  }
  return sum;
}

namespace {

/// A number that is the smaller, the larger the float is.
std::uint32_t descending_key(float score) {
  constexpr std::uint32_t kSign = 0x80000000U;
  const auto bits = std::bit_cast<std::uint32_t>(score);
  return (bits & kSign) != 0 ? bits : ~(bits | kSign);
}

/// Radix sort: three passes of 11 bits. \pre no NaN
void sort_descending(std::vector<float>& scores) {
  constexpr std::size_t kFew = 512;
  if (scores.size() < kFew) return std::sort(scores.begin(), scores.end(), std::greater<>());
  constexpr unsigned kBits = 11;
  constexpr std::uint32_t kDigits = 1U << kBits;
  std::vector<float> sorted(scores.size());
  for (unsigned pass = 0; pass < 3; ++pass) {
    const auto digit = [shift = pass * kBits](float score) { return descending_key(score) >> shift & (kDigits - 1); };
    std::vector<std::size_t> places(kDigits + 1);
    for (const float score : scores) ++places[digit(score) + 1];
    for (std::size_t d = 0; d < kDigits; ++d) places[d + 1] += places[d];
    for (const float score : scores) sorted[places[digit(score)]++] = score;
    scores.swap(sorted);
  }
}

}  // namespace

RankingFigures rank_figures(std::vector<float> negative, std::vector<float> positive) {
  const auto has_nan = [](const std::vector<float>& scores) {
    return std::any_of(scores.begin(), scores.end(), [](float score) { return std::isnan(score); });
  };
  if (negative.empty() || positive.empty() || has_nan(negative) || has_nan(positive)) return {kUndefined, kUndefined};
  sort_descending(negative);
  sort_descending(positive);
  double above = 0, negatives_above = 0;  // positive and negative examples with a score as high as this, or higher
  double pairs = 0, precision_sum = 0;    // pairs in order; Σ (positives of a score) · precision
  auto n = negative.begin(), p = positive.begin();
  while (p != positive.end()) {
    const float score = n == negative.end() ? *p : std::max(*n, *p);
    const auto n_end = std::find_if(n, negative.end(), [score](float other) { return other != score; });
    const auto p_end = std::find_if(p, positive.end(), [score](float other) { return other != score; });
    const auto tied_negatives = static_cast<double>(n_end - n), tied_positives = static_cast<double>(p_end - p);
    pairs += tied_negatives * (above + tied_positives / 2);
    above += tied_positives;
    negatives_above += tied_negatives;
    precision_sum += tied_positives * above / (above + negatives_above);
    n = n_end;
    p = p_end;
  }
  pairs += static_cast<double>(negative.end() - n) * above;
  const auto negatives = static_cast<double>(negative.size()), positives = static_cast<double>(positive.size());
  return {.roc_auc = pairs / negatives / positives, .average_precision = precision_sum / positives};
}

namespace {

/// How many examples have a score as high as one of them, or higher.
struct CountsAbove {
  float score = 0;
  double negatives = 0, positives = 0;
};

/// For each distinct score, from the highest on. Empty where a class has no examples, or a score is NaN.
std::vector<CountsAbove> counts_above(std::vector<float> negative, std::vector<float> positive) {
  if (std::isnan(rank_figures(negative, positive).roc_auc)) return {};
  sort_descending(negative);
  sort_descending(positive);
  std::vector<CountsAbove> all;
  std::size_t n = 0, p = 0;
  while (n < negative.size() || p < positive.size()) {
    const bool of_negative = p == positive.size() || (n < negative.size() && negative[n] > positive[p]);
    const float score = of_negative ? negative[n] : positive[p];
    while (n < negative.size() && negative[n] == score) ++n;
    while (p < positive.size() && positive[p] == score) ++p;
    all.push_back({score, static_cast<double>(n), static_cast<double>(p)});
  }
  return all;
}

/// The metric where the examples above are predicted as the second class.
double metric_of_counts(const CountsAbove& above, double negatives, double positives, std::string_view metric) {
  const double hits = above.positives, wrong = above.negatives, missed = positives - hits, rest = negatives - wrong;
  const double f1 = 2 * hits / (2 * hits + wrong + missed);
  if (metric == "f1") return f1;
  if (metric == "f1_macro") return (f1 + 2 * rest / (2 * rest + wrong + missed)) / 2;
  if (metric == "balanced_accuracy") return (hits / positives + rest / negatives) / 2;
  return (hits + rest) / (positives + negatives);
}

}  // namespace

RankingCurves curves_of(std::vector<float> negative, std::vector<float> positive) {
  constexpr double kPoints = 200;
  const std::vector<CountsAbove> all = counts_above(std::move(negative), std::move(positive));
  if (all.empty()) return {};
  const double negatives = all.back().negatives, positives = all.back().positives;
  RankingCurves curves{.roc = {{0, 0}}, .precision_recall = {}};
  CountsAbove drawn;
  for (const CountsAbove& one : all) {
    const double moved = (one.negatives - drawn.negatives) / negatives + (one.positives - drawn.positives) / positives;
    if (moved < 1 / kPoints && &one != &all.back()) continue;
    drawn = one;
    curves.roc.push_back({one.negatives / negatives, one.positives / positives});
    curves.precision_recall.push_back({one.positives / positives, one.positives / (one.positives + one.negatives)});
  }
  return curves;
}

std::optional<ChosenThreshold> best_threshold(std::vector<float> negative, std::vector<float> positive,
                                              std::string_view metric, double usual) {
  const std::vector<CountsAbove> all = counts_above(std::move(negative), std::move(positive));
  std::optional<ChosenThreshold> best;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double value = metric_of_counts(all[i], all.back().negatives, all.back().positives, metric);
    const double lower = static_cast<double>(all[std::min(i + 1, all.size() - 1)].score);
    const double threshold = (static_cast<double>(all[i].score) + lower) / 2;
    const bool nearer = best && value == best->value && std::abs(threshold - usual) < std::abs(best->threshold - usual);
    if (!best || value > best->value || nearer) best = {threshold, value};
  }
  return best;
}

void ClassificationFigures::set_untrained(const std::vector<bool>& untrained) {
  matrix.set_untrained(untrained);
  for (std::size_t label = 0; label < untrained.size(); ++label) {
    if (!untrained[label]) continue;
    const std::size_t at = matrix.classes() == 2 ? 0 : label;  // of two classes, it is the other's, too
    if (at < ranking.size()) ranking[at] = {kUndefined, kUndefined};
    if (at < curves.size()) curves[at] = {};
  }
}

RankingFigures mean_of(const std::vector<RankingFigures>& ranking) {
  RankingFigures sum;
  double count = 0;
  for (const RankingFigures& one : ranking) {
    if (std::isnan(one.roc_auc)) continue;
    sum.roc_auc += one.roc_auc;
    sum.average_precision += one.average_precision;
    ++count;
  }
  if (count == 0) return {kUndefined, kUndefined};
  return {sum.roc_auc / count, sum.average_precision / count};
}

std::vector<models::Metric> metrics_of(const ClassificationFigures& figures) {
  std::vector<models::Metric> metrics;
  const auto add = [&](std::string_view name, double value) {
    if (std::isfinite(value)) metrics.push_back(models::metric_of(name, value));
  };
  const ConfusionMatrix& matrix = figures.matrix;
  const bool two = matrix.classes() == 2;
  if (!figures.ranking.empty()) {
    const RankingFigures mean = mean_of(figures.ranking);
    add("auc", mean.roc_auc);
    add("average_precision", mean.average_precision);
    if (!metrics.empty()) metrics.front().shown = two;
  }
  add("balanced_accuracy", matrix.balanced_accuracy());
  const ClassFigures macro = matrix.macro_mean();
  if (!two || matrix.support(1) > 0) {
    const ClassFigures main = two ? matrix.of(1) : macro;
    add("precision", main.precision);
    add("recall", main.recall);
    add("f1", main.f1);
  }
  if (two) {
    add("precision_macro", macro.precision);
    add("recall_macro", macro.recall);
    add("f1_macro", macro.f1);
  }
  if (figures.calibration) {
    add("log_loss", figures.calibration->log_loss());
    add("brier_score", figures.calibration->brier_score());
    add("expected_calibration_error", figures.calibration->expected_error());
  }
  return metrics;
}

std::vector<models::Metric> possible_metrics(const ClassReading& reading) {
  ClassificationFigures figures{.matrix = ConfusionMatrix(reading.classes, /*cells=*/false), .ranking = {{1, 1}}};
  constexpr std::array probabilities = {0.5F, 0.5F};
  if (reading.probabilities) figures.calibration.emplace();
  for (const std::int32_t label : {0, 1}) {
    figures.matrix.add(label, label);
    if (figures.calibration) figures.calibration->add(probabilities, label, label);
  }
  return metrics_of(figures);
}

bool ranks_examples(std::string_view metric) { return metric == "auc" || metric == "average_precision"; }

bool needs_predictions(std::string_view metric) {
  return ranks_examples(metric) || metric == "log_loss" || metric == "brier_score" ||
         metric == "expected_calibration_error";
}

std::vector<std::string> undefined_metrics(const ClassReading& reading, std::int32_t label) {
  ClassificationFigures figures{.matrix = ConfusionMatrix(reading.classes, /*cells=*/false)};
  figures.matrix.add(label, label);
  const std::vector<models::Metric> defined = metrics_of(figures);
  std::vector<std::string> names;
  for (const models::Metric& metric : possible_metrics(reading)) {
    const bool of_one_class = needs_predictions(metric.name) && !ranks_examples(metric.name);
    if (!of_one_class && models::find_metric(defined, metric.name) == nullptr) names.push_back(metric.name);
  }
  return names;
}

}  // namespace unisono::records
