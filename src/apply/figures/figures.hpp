#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "unisono/apply/trained_model.hpp"
#include "unisono/records/class_figures.hpp"
#include "unisono/records/multilabel_figures.hpp"

namespace unisono::apply {

/// The figures of a classifier that are no metrics, and the names that these had before: precision_macro, roc_auc, …;
/// classes, confusion_matrix and calibration are lists.
nlohmann::ordered_json to_json(const records::ClassificationFigures& figures, const std::vector<std::string>& names);
/// Indented lines; figures of each class only if there are at most 20 classes.
std::vector<std::string> to_text(const records::ClassificationFigures& figures, const std::vector<std::string>& names);

/// Likewise of a model of several labels: `labels` is a list. \param names of the labels
nlohmann::ordered_json to_json(const records::MultilabelFigures& figures, const std::vector<std::string>& names);
std::vector<std::string> to_text(const records::MultilabelFigures& figures, const std::vector<std::string>& names);

/// How good a list of k recommendations is, given the relevant items.
struct TopFigures {
  double precision = 0;  ///< share of the k places with a relevant item
  double recall = 0;     ///< share of the relevant items that are in the list
  double ndcg = 0;       ///< Σ 1/log2(1 + place) over relevant items in the list, divided by its maximum
};

/// The figures of one user. \param recommended best first, at most k; −1: no item was left for this place
/// \param relevant ascending, at least one \param k length of the list, even if fewer were recommended
TopFigures top_figures(std::span<const std::int32_t> recommended, std::span<const std::uint32_t> relevant,
                       std::size_t k);

/// How good the recommendations of a model of ratings are: means over users.
struct RecommendationFigures {
  std::int64_t k = 0;
  double least = 0;        ///< an item is relevant if its rating is at least this
  std::int64_t users = 0;  ///< users with a relevant item in the split
  TopFigures mean;         ///< over these users; NaN if there are none
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
