#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
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
  double f1 = 0;             ///< harmonic mean of the two
  std::int64_t support = 0;  ///< examples of this class
};

/// Counts how many examples of each class were predicted as each class.
class ConfusionMatrix {
 public:
  /// Above so many classes only the counts of each class are kept, because the whole matrix would take more than 32
  /// MiB.
  static constexpr Index kMostClasses = 2048;

  explicit ConfusionMatrix(Index classes);

  void add(std::int32_t truth, std::int32_t predicted);
  /// All counts in one vector, for an allreduce over ranks.
  std::span<std::int64_t> counts() { return counts_; }
  /// Which classes no training example has: their figures are undefined, and means leave them out. \param untrained [K]
  void set_untrained(std::vector<bool> untrained) { untrained_ = std::move(untrained); }
  bool is_untrained(Index label) const { return !untrained_.empty() && untrained_[at(label)]; }

  Index classes() const { return classes_; }
  bool has_cells() const { return classes_ <= kMostClasses; }
  /// \pre has_cells()
  std::int64_t cell(Index truth, Index predicted) const {
    return counts_[at(3 * classes_ + truth * classes_ + predicted)];
  }
  std::int64_t support(Index label) const { return counts_[at(label)]; }
  ClassFigures of(Index label) const;

  // Over the classes that occur, as labels or as predictions; scikit-learn's average="macro" and average="weighted".
  // NaN where there are only untrained ones.
  ClassFigures macro_mean() const;
  ClassFigures weighted_mean() const;  ///< by the classes' supports

 private:
  static std::size_t at(Index i) { return static_cast<std::size_t>(i); }
  std::int64_t predicted(Index label) const { return counts_[at(classes_ + label)]; }
  std::int64_t hits(Index label) const { return counts_[at(2 * classes_ + label)]; }
  ClassFigures defined(const ClassFigures& mean, std::int64_t count) const;

  Index classes_;
  std::vector<bool> untrained_;       ///< [K]; empty: none is
  std::vector<std::int64_t> counts_;  ///< [K] labels, [K] predictions, [K] hits, and if has_cells() [K, K]
};

/// How the outputs of a model are read as classes that exclude each other.
struct ClassReading {
  Index classes = 0;           ///< K, at least 2
  Index outputs = 0;           ///< K; or 1, for the second of two classes
  bool probabilities = false;  ///< otherwise margins

  /// The class with the largest output, the first of equals. With one output: the second class if it is above ½ (for
  /// margins: above 0).
  std::int32_t class_of(View row) const;
  /// The probability of that class. \pre probabilities
  double confidence(View row) const;
};

/// An example that a model is most wrong about.
struct WorstExample {
  std::int64_t number = 0;      ///< in its split
  std::vector<float> answer;    ///< its class number, target or rating
  std::vector<float> outputs;   ///< the model's
  double error = 0;             ///< what the examples are ordered by
  std::vector<float> features;  ///< [C, H, W] as the model takes them; empty where examples are not a table
};

/// The rows of a model's vectors that point in the most similar directions as some of them.
struct Neighbours {
  std::string table;  ///< "words", "users"
  struct NamedNeighbours {
    std::string name;
    std::vector<std::pair<std::string, double>> neighbours;  ///< names and cosines, the largest first
  };
  std::vector<NamedNeighbours> rows = {};
};

/// The metrics of a split, and what they were computed from.
struct SplitEvaluation {
  std::string checkpoint;  ///< path
  std::int64_t step = 0;   ///< of the checkpoint
  std::string data;
  std::int64_t examples = 0;
  std::vector<models::Metric> metrics = {};
};

/// What a trained model does on examples, for a report about its run.
struct ModelExamples {
  std::optional<ClassReading> reading = {};        ///< how to read a class from outputs; nothing: they are no classes
  std::vector<std::string> classes = {};           ///< their names; empty: they have none
  std::optional<ConfusionMatrix> matrix = {};      ///< of the split
  std::string error = {};                          ///< what WorstExample::error is: "distance from the target"
  std::vector<WorstExample> worst = {};            ///< the most wrong first
  data::FeatureShape features = {};                ///< of an example
  bool are_images = false;                         ///< whether features are pixels
  std::vector<Neighbours> neighbours = {};         ///< of each table of vectors that the model has
  std::optional<SplitEvaluation> evaluation = {};  ///< nothing: the split is that of training
};

}  // namespace unisono::records
