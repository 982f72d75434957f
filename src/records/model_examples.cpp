#include <algorithm>
#include <limits>

#include "unisono/records/model_examples.hpp"

namespace unisono::records {
namespace {

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

ConfusionMatrix::ConfusionMatrix(Index classes)
    : classes_(classes), counts_(at(classes * (3 + (has_cells() ? classes : 0)))) {}

void ConfusionMatrix::add(std::int32_t truth, std::int32_t predicted) {
  ++counts_[at(truth)];
  ++counts_[at(classes_ + predicted)];
  if (truth == predicted) ++counts_[at(2 * classes_ + truth)];
  if (has_cells()) ++counts_[at(3 * classes_ + truth * classes_ + predicted)];
}

ClassFigures ConfusionMatrix::of(Index label) const {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  if (is_untrained(label)) return {.precision = kNone, .recall = kNone, .f1 = kNone, .support = support(label)};
  const auto hit = static_cast<double>(hits(label));
  const auto labelled = static_cast<double>(support(label)), said = static_cast<double>(predicted(label));
  return {.precision = quotient(hit, said),
          .recall = quotient(hit, labelled),
          .f1 = quotient(2 * hit, said + labelled),
          .support = support(label)};
}

/// A mean is undefined where all examples are of untrained classes. \param count of the others
ClassFigures ConfusionMatrix::defined(const ClassFigures& mean, std::int64_t count) const {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const bool is_undefined = count == 0 && !untrained_.empty();
  return is_undefined ? ClassFigures{.precision = kNone, .recall = kNone, .f1 = kNone} : mean;
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

ClassFigures ConfusionMatrix::weighted_mean() const {
  ClassFigures sum;
  for (Index label = 0; label < classes_; ++label) {
    if (!is_untrained(label)) unisono::records::add(sum, of(label), static_cast<double>(support(label)));
  }
  return defined(divided(sum, static_cast<double>(sum.support)), sum.support);
}

std::int32_t ClassReading::class_of(View row) const {
  if (outputs == 1) return row.front() > (probabilities ? 0.5F : 0.0F) ? 1 : 0;
  return static_cast<std::int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

double ClassReading::confidence(View row) const {
  const double largest = *std::max_element(row.begin(), row.end());
  return outputs == 1 ? std::max(largest, 1 - largest) : largest;
}

}  // namespace unisono::records
