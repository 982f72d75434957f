#pragma once

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "unisono/apply/answers.hpp"
#include "unisono/apply/trained_model.hpp"
#include "unisono/records/model_examples.hpp"
#include "unisono/tensor/allocator.hpp"

namespace unisono::apply {

/// Compares predicted probabilities with how often the predictions are right.
///   Confidence: the probability of the predicted class. Expected calibration error: Σ_b n_b/n · |accuracy_b −
///   confidence_b| over 15 bins of equal width, ((b − 1)/15, b/15] (Guo et al., ICML 2017).
///   Brier score: mean of (p − y)² for two classes, of Σ_k (p_k − y_k)² for more (Brier 1950).
class Calibration {
 public:
  static constexpr int kBins = 15;

  /// Adds an example. \param squared_error its part of the Brier score
  void add(double confidence, bool right, double squared_error);
  /// All sums in one vector, for an allreduce over ranks.
  std::span<double> sums() { return sums_; }

  struct Bin {
    double examples = 0, confidence = 0, accuracy = 0;  ///< the last two: means; 0 without examples
  };
  Bin bin(int b) const;
  double expected_error() const;
  double brier_score() const;

 private:
  std::array<double, 3 * kBins + 2> sums_{};  ///< per bin examples, confidence, hits; all examples, squared errors
};

/// An example's part of the Brier score. \param probabilities [K]; or one value: the probability of the second of two
/// classes
double brier_part(View probabilities, std::int32_t label);

/// An example's score for a class, and whether it belongs to the class.
struct RankedExample {
  float score = 0;
  bool positive = false;
};

/// How well the scores rank positive before negative examples. NaN if all examples are positive, or none, or a score is
/// NaN.
struct RankingFigures {
  double roc_auc = 0;  ///< share of the pairs of a positive and a negative example of which the positive one has the
                       ///< higher score; equal scores count half
  double average_precision = 0;  ///< Σ (R_i − R_{i−1}) P_i over the distinct scores as thresholds, from the highest on;
                                 ///< without interpolation
};

/// Computes both in O(n log n), as scikit-learn's roc_auc_score and average_precision_score.
RankingFigures rank_figures(std::vector<RankedExample> examples);

/// How well a classifier does on a split, beyond loss and accuracy.
struct ClassificationFigures {
  records::ConfusionMatrix matrix;
  std::optional<Calibration> calibration;  ///< if it predicts probabilities
  /// With two classes: for the second one; with more: for each class against the rest. Empty if there are too many
  /// examples.
  std::vector<RankingFigures> ranking;

  /// Mean over the classes that have both positive and negative examples; NaN if there are none.
  RankingFigures mean_ranking() const;
};

/// Predicts a split and computes the figures; the ranks divide the examples. A rank keeps the scores of its own
/// examples, n/P · K floats, and for one class at a time those of all examples; above 2²⁸ own scores, `ranking` stays
/// empty. Collective. \return nothing if the answers are not classes (targets other than 0 and 1)
std::optional<ClassificationFigures> classify_split(TrainedModel& model, comm::Communicator& replicas,
                                                    const records::ClassReading& reading);

/// A figure with six digits, or "undefined".
std::string figure_text(double figure);

/// Flat keys: precision_macro, roc_auc, …; classes, confusion_matrix and calibration are lists.
nlohmann::ordered_json to_json(const ClassificationFigures& figures, const std::vector<std::string>& names);
/// Indented lines; figures of each class only if there are at most 20 classes.
std::vector<std::string> to_text(const ClassificationFigures& figures, const std::vector<std::string>& names);

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
