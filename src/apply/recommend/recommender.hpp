#pragma once

#include <span>
#include <vector>

#include "model/best.hpp"
#include "recommend/rated_items.hpp"
#include "unisono/models/model.hpp"

namespace unisono::apply {

/// An item and its predicted rating; item −1: no unrated item was left.
struct Recommendation {
  std::int32_t item = -1;
  float score = 0;
};

/// Chooses for each user the unrated items with the highest predicted ratings. Thread-safe.
class Recommender {
 public:
  /// \param model a model of ratings, whose `predict` is thread-safe
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

}  // namespace unisono::apply
