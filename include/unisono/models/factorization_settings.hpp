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

/// What the values of a set of ratings say about users' preferences.
enum class Feedback { explicit_, implicit };

inline constexpr Named<Feedback> kFeedbacks[] = {
    {Feedback::explicit_, "explicit", "ratings that users gave; what they did not rate is unknown"},
    {Feedback::implicit, "implicit",
     "how often a user watched, bought or clicked something: a value above 0 says that the user likes the item, the "
     "surer the larger it is, and all other items count as disliked, with little confidence (Hu, Koren & Volinsky, "
     "2008)"}};

/// `[model] kind = "factorization"`
struct FactorizationSettings {
  std::int64_t dimension = 32;  ///< K, factors of a user or item
  double user_l2 = 0.02, item_l2 = 0.02;
  PenaltyPer l2_per = PenaltyPer::rating;
  bool biases = true;
  Feedback feedback = Feedback::explicit_;
  double confidence = 40;      ///< α: an implicit value r has the weight 1 + α |r|, what is not in the set 1
  double initial_range = 0.1;  ///< initial factors are uniform in ±initial_range/√K
  void describe(ConfigVisitor& visitor);
};

}  // namespace unisono::models
