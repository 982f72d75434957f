#pragma once

#include <span>
#include <vector>

#include "apply/best.hpp"
#include "apply/recommend/rated_items.hpp"
#include "unisono/models/model.hpp"

namespace unisono::experiment {

/// An item and what a user is predicted to rate it; item −1: there is none left.
struct Recommendation {
  std::int32_t item = -1;
  float score = 0;
};

/// Chooses for each user the items with the highest predicted ratings, of those that the user has not rated. Several
/// threads may ask at the same time.
class Recommender {
 public:
  /// \param model of ratings, whose `predict` changes nothing but its outputs
  Recommender(models::Model& model, models::ModelState state, Index items, const RatedItems& rated, std::size_t top)
      : model_(model), state_(state), items_(items), rated_(rated), top_(top) {}

  /// \param chosen [users, top], overwritten
  void recommend(std::span<const std::int32_t> users, std::span<Recommendation> chosen) const;

 private:
  models::Model& model_;
  models::ModelState state_;
  Index items_;
  const RatedItems& rated_;
  std::size_t top_;
};

}  // namespace unisono::experiment
