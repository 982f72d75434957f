#pragma once

#include <cstdint>
#include <string>

#include "unisono/base/config.hpp"

namespace unisono::models {

/// `[model] kind = "factorization"`
struct FactorizationSettings {
  std::int64_t dimension = 32;  ///< K
  double user_l2 = 0.02, item_l2 = 0.02;
  std::string l2_per = "rating";  ///< how often the penalties count: rating, user_and_item
  bool biases = true;
  double initial_range = 0.1;  ///< factors begin in ±range/√K
  void describe(ConfigVisitor& visitor);
};

}  // namespace unisono::models
