#include "unisono/kernels/loss_kernels.hpp"

namespace unisono::kernels {

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
  return *this;
}

}  // namespace unisono::kernels
