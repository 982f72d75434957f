#include "unisono/kernels/loss_kernels.hpp"

#include <array>
#include <utility>

namespace unisono::kernels {

namespace {

/// The floating-point sums.
std::array<double*, 5> floating(LossSums& sums) {
  return {&sums.loss, &sums.squared_error, &sums.absolute_error, &sums.target_sum, &sums.target_squared_sum};
}

}  // namespace

void LossSums::settle() {
  const auto sums = floating(*this);
  settled.resize(sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i) settled[i].add_sum(std::exchange(*sums[i], 0));
}

void LossSums::unsettle() {
  if (settled.empty()) return;
  const auto sums = floating(*this);
  for (std::size_t i = 0; i < sums.size(); ++i) *sums[i] += settled[i].value();
  settled.clear();
}

LossSums& LossSums::operator+=(const LossSums& more) {
  loss += more.loss;
  examples += more.examples;
  correct += more.correct;
  correct_top5 += more.correct_top5;
  squared_error += more.squared_error;
  absolute_error += more.absolute_error;
  target_sum += more.target_sum;
  target_squared_sum += more.target_squared_sum;
  values += more.values;
  negative_scores.insert(negative_scores.end(), more.negative_scores.begin(), more.negative_scores.end());
  positive_scores.insert(positive_scores.end(), more.positive_scores.begin(), more.positive_scores.end());
  if (!more.settled.empty()) settled.resize(more.settled.size());
  for (std::size_t i = 0; i < more.settled.size(); ++i) settled[i].add(more.settled[i]);
  return *this;
}

}  // namespace unisono::kernels
