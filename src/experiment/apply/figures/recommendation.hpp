#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apply/figures/top_k.hpp"
#include "apply/trained_model.hpp"

namespace unisono::experiment {

/// What a model of ratings is worth for recommending, as means over users.
struct RecommendationFigures {
  std::int64_t k = 0;
  double least = 0;        ///< ratings from here on are relevant
  std::int64_t users = 0;  ///< who have a relevant item in the split
  TopFigures mean;         ///< of these; zeros where there are none
};

/// Ranks for each user all items that the user has not rated in the training group (of the training group itself: all
/// items), and looks where the relevant ones of the split are. Users are shared out; the figures have the same bits on
/// any number of ranks. Collective.
RecommendationFigures recommend_split(TrainedModel& model, comm::Communicator& replicas, std::int64_t k,
                                      std::optional<double> least);

/// precision_at_10, …
nlohmann::ordered_json to_json(const RecommendationFigures& figures);
std::vector<std::string> to_text(const RecommendationFigures& figures);

}  // namespace unisono::experiment
