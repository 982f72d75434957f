#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "figures/top_k.hpp"
#include "unisono/apply/trained_model.hpp"

namespace unisono::apply {

/// How good the recommendations of a model of ratings are: means over users.
struct RecommendationFigures {
  std::int64_t k = 0;
  double least = 0;        ///< an item is relevant if its rating is at least this
  std::int64_t users = 0;  ///< users with a relevant item in the split
  TopFigures mean;         ///< over these users; zeros if there are none
};

/// Ranks for each user all items that the user has not rated in the training group (to evaluate the training group
/// itself: all items), and compares the first k with the relevant items of the split. The ranks divide the users; the
/// result has the same bits on any number of ranks. Collective.
RecommendationFigures recommend_split(TrainedModel& model, comm::Communicator& replicas, std::int64_t k,
                                      std::optional<double> least);

/// precision_at_10, …
nlohmann::ordered_json to_json(const RecommendationFigures& figures);
std::vector<std::string> to_text(const RecommendationFigures& figures);

}  // namespace unisono::apply
