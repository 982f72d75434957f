#pragma once

#include "unisono/base/config.hpp"

namespace unisono::models {

enum class LinearLoss { automatic, logistic, hinge, squared_hinge, squared, softmax };

inline constexpr Named<LinearLoss> kLinearLosses[] = {
    {LinearLoss::automatic, "auto", "logistic for two classes, softmax for more, squared for numeric targets"},
    {LinearLoss::logistic, "logistic", "ln(1 + e^−yz), for two classes: logistic regression"},
    {LinearLoss::hinge, "hinge", "max(0, 1 − yz), for two classes: a linear support vector machine"},
    {LinearLoss::squared_hinge, "squared_hinge",
     "max(0, 1 − yz)², for two classes: a smooth linear support vector machine"},
    {LinearLoss::squared, "squared", "½ (z − t)², for a numeric target: least squares"},
    {LinearLoss::softmax, "softmax", "cross-entropy, for any number of classes"}};

/// `[model] kind = "linear"`
struct LinearSettings {
  LinearLoss loss = LinearLoss::automatic;
  double l1 = 0, l2 = 0;
  bool bias = true;
  bool averaged = false;
  std::int64_t mini_batch = 1;
  void describe(ConfigVisitor& visitor);
};

}  // namespace unisono::models
