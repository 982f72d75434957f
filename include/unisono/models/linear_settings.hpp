#pragma once

#include <string>

#include "unisono/base/config.hpp"

namespace unisono::models {

/// `[model] kind = "linear"`
struct LinearSettings {
  std::string loss = "auto";  ///< auto, logistic, hinge, squared, softmax
  double l1 = 0, l2 = 0;
  bool bias = true;
  bool averaged = false;
  void describe(ConfigVisitor& visitor);
};

}  // namespace unisono::models
