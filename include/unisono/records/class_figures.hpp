#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "unisono/models/model.hpp"
#include "unisono/tensor/allocator.hpp"

namespace unisono::records {

/// Precision, recall and F1 of one class; 0/0 counts as 0, as in scikit-learn. NaN: undefined, because no training
/// example has this class.
struct ClassFigures {
  double precision = 0;      ///< share of the examples predicted as this class that belong to it
  double recall = 0;         ///< share of this class's examples that were predicted as it
  double f1 = 0;             ///< harmonic mean of precision and recall
  std::int64_t support = 0;  ///< examples of this class
};

/// Counts how many examples of each class were predicted as each class.
class ConfusionMatrix {
 public:
  /// The most classes for which the whole matrix is kept. For more classes it would take more than 32 MiB, and only the
  /// counts of each class are kept.
  static constexpr Index kMostClasses = 2048;

  /// \param cells whether the whole matrix is wanted, and not the counts of each class alone
  explicit ConfusionMatrix(Index classes, bool cells = true);

  void add(std::int32_t truth, std::int32_t predicted);
  /// All counts in one vector, for an allreduce over ranks.
  std::span<std::int64_t> counts() { return counts_; }
  /// Which classes no training example has: their figures are undefined, and means leave them out. \param untrained [K]
  void set_untrained(std::vector<bool> untrained) { untrained_ = std::move(untrained); }
  bool is_untrained(Index label) const { return !untrained_.empty() && untrained_[at(label)]; }

  Index classes() const { return classes_; }
  bool has_cells() const { return has_cells_; }
  /// How many examples of class `truth` were predicted as class `predicted`. \pre has_cells()
  std::int64_t cell(Index truth, Index predicted) const {
    return counts_[at(3 * classes_ + truth * classes_ + predicted)];
  }
  std::int64_t support(Index label) const { return counts_[at(label)]; }
  ClassFigures of(Index label) const;

  double accuracy() const;  ///< NaN if there are no examples
  /// The mean of the recalls of those classes that have examples; NaN if none has.
  double balanced_accuracy() const;
  // Means over the classes that occur, as labels or as predictions; scikit-learn's average="macro" and
  // average="weighted". NaN where there are only untrained classes.
  ClassFigures macro_mean() const;
  ClassFigures weighted_mean() const;  ///< mean weighted by the classes' supports; see macro_mean

 private:
  static std::size_t at(Index i) { return static_cast<std::size_t>(i); }
  ClassFigures defined(const ClassFigures& mean, std::int64_t count) const;
  std::int64_t predicted(Index label) const { return counts_[at(classes_ + label)]; }
  std::int64_t hits(Index label) const { return counts_[at(2 * classes_ + label)]; }

  Index classes_;
  bool has_cells_;
  std::vector<std::int64_t> counts_;  ///< [K] labels, [K] predictions, [K] hits, and if has_cells() [K, K]
  std::vector<bool> untrained_ = {};  ///< [K]; empty: no class is untrained
};

/// How the outputs of a model are read as classes that exclude each other.
struct ClassReading {
  Index classes = 0;           ///< K, at least 2
  Index outputs = 0;           ///< K; or 1: the output of the second of two classes
  bool probabilities = false;  ///< whether outputs are probabilities; false: they are margins
  /// Two classes: the second one is predicted where its output is at least this. Nothing: class_of says what is
  /// predicted.
  std::optional<double> threshold = {};

  /// The predicted class: the one with the largest output, the first of equals; of two classes with one output, the
  /// second class if the output is above ½ (for margins: above 0). A threshold takes precedence.
  std::int32_t class_of(View row) const;
};

/// Compares predicted probabilities with how often the predictions are right.
///   Confidence: the probability of the predicted class. Expected calibration error: Σ_b n_b/n · |accuracy_b −
///   confidence_b| over 15 bins of equal width, ((b − 1)/15, b/15] (Guo et al., ICML 2017).
///   Brier score: mean of (p − y)² for two classes, of Σ_k (p_k − y_k)² for more (Brier 1950).
///   Log loss: mean of −ln p_label, with p within [ε, 1 − ε] for ε = 2⁻²³, as scikit-learn's log_loss of floats.
/// Sums are integers of units of 2⁻⁴⁰, so that they have the same bits in any order and on any number of ranks.
class Calibration {
 public:
  static constexpr int kBins = 15;

  Calibration();
  /// Adds an example. \param row the example's outputs: probabilities \param predicted the class with the largest
  /// output
  void add(View row, std::int32_t label, std::int32_t predicted);
  /// All sums in one vector, for an allreduce over ranks.
  std::span<std::int64_t> sums() { return sums_; }

  struct Bin {
    double examples = 0, confidence = 0, accuracy = 0;  ///< confidence, accuracy: means; NaN without examples
  };
  Bin bin(int b) const;
  // NaN if there are no examples, or a probability is NaN.
  double expected_error() const;
  double brier_score() const;
  double log_loss() const;

 private:
  double mean(std::size_t at) const;

  /// For each bin examples, hits, and confidence; for all examples their number, squared errors, losses, and how many
  /// have a probability that is NaN.
  std::vector<std::int64_t> sums_;
};

/// The probability of a class. \param probabilities [K]; or one value, of the second of two classes
double probability_of(View probabilities, std::int32_t label);
/// An example's part of the Brier score.
double brier_part(View probabilities, std::int32_t label);

/// How well scores rank positive before negative examples. NaN if there are no positive or no negative ones, or a score
/// is NaN.
struct RankingFigures {
  double roc_auc = 0;  ///< share of the pairs of a positive and a negative example of which the positive one has the
                       ///< higher score; equal scores count half
  double average_precision = 0;  ///< Σ (R_i − R_{i−1}) P_i over the distinct scores as thresholds, from the highest on;
                                 ///< without interpolation
};

/// The means of figures over those of them that are defined; NaN where none is.
RankingFigures mean_of(const std::vector<RankingFigures>& ranking);

/// Computes RankingFigures in O(n log n), as scikit-learn's roc_auc_score and average_precision_score.
/// \param negative, positive the scores of the examples
RankingFigures rank_figures(std::vector<float> negative, std::vector<float> positive);

/// A point of a curve.
struct CurvePoint {
  double x = 0, y = 0;
};

/// How well scores rank positive before negative examples, threshold by threshold, from the highest score on.
struct RankingCurves {
  std::vector<CurvePoint> roc;               ///< false against true positive rate, from (0, 0) to (1, 1)
  std::vector<CurvePoint> precision_recall;  ///< recall against precision, to a recall of 1
};

/// Computes RankingCurves, with at most some 200 points of each. Empty where the areas under them (rank_figures) are
/// NaN.
RankingCurves curves_of(std::vector<float> negative, std::vector<float> positive);

/// A threshold of the second class's output.
struct ChosenThreshold {
  double threshold = 0;
  double value = 0;  ///< value of the metric by which the threshold was chosen
};

/// The threshold of the second class's output that makes a metric the best. It lies halfway between two neighbouring
/// outputs, or is the lowest output; of equally good thresholds, it is the one nearest to `usual`. Nothing where an
/// output is NaN, or a class has no examples.
/// \param negative, positive the outputs of the second class, of examples of the first and of the second class
/// \param metric one of kThresholdMetrics
std::optional<ChosenThreshold> best_threshold(std::vector<float> negative, std::vector<float> positive,
                                              std::string_view metric, double usual);
/// Metrics of two classes that are worth choosing a threshold by.
inline constexpr std::string_view kThresholdMetrics[] = {"f1", "f1_macro", "balanced_accuracy", "accuracy"};

/// How well a classifier does on a split, beyond loss and accuracy.
struct ClassificationFigures {
  ConfusionMatrix matrix;
  std::optional<Calibration> calibration = {};  ///< only of a classifier that predicts probabilities
  /// Ranking by the scores: with two classes, of the second one; with more, of each class against the rest. Empty if it
  /// was not computed.
  std::vector<RankingFigures> ranking = {};
  std::vector<RankingCurves> curves = {};  ///< curves for the classes of `ranking`; empty if they were not wanted

  /// Which classes no training example has: figures of these classes are undefined. \param untrained [K], or empty:
  /// none
  void set_untrained(const std::vector<bool>& untrained);
};

/// The metrics that follow from figures. Undefined metrics are left out: areas where no class has both examples and
/// others, and precision, recall and F1 of the second of two classes where no example is of it.
std::vector<models::Metric> metrics_of(const ClassificationFigures& figures);
/// All metrics that classifiers with a reading may have.
std::vector<models::Metric> possible_metrics(const ClassReading& reading);
/// Whether a metric takes outputs as `Model::predict` gives them, not only the predicted classes.
bool needs_predictions(std::string_view metric);
/// Whether a metric ranks examples by outputs as `Model::predict` gives them.
bool ranks_examples(std::string_view metric);
/// The metrics of `possible_metrics` that are undefined where all examples are of this class.
std::vector<std::string> undefined_metrics(const ClassReading& reading, std::int32_t label);

}  // namespace unisono::records
