#pragma once

#include <cstdint>

#include "unisono/base/config.hpp"

namespace unisono::models {

/// How often the L2 penalty of a user or item counts in the objective.
enum class PenaltyPer { rating, user_and_item };

inline constexpr Named<PenaltyPer> kPenaltiesPer[] = {
    {PenaltyPer::rating, "rating", "once for each rating of the user and of the item"},
    {PenaltyPer::user_and_item, "user_and_item",
     "once for each user and each item, so that those with few ratings stay closer to the mean than those with "
     "many; values from 3 to 10 fit most sets"}};

/// `[model] kind = "factorization"`
struct FactorizationSettings {
  std::int64_t dimension = 32;  ///< K, factors of a user or item
  double user_l2 = 0.02, item_l2 = 0.02;
  PenaltyPer l2_per = PenaltyPer::rating;
  bool biases = true;
  double initial_range = 0.1;  ///< initial factors are uniform in ±initial_range/√K
  void describe(ConfigVisitor& visitor);
};

}  // namespace unisono::models
