#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "unisono/models/model.hpp"
#include "unisono/records/class_figures.hpp"
#include "unisono/records/multilabel_figures.hpp"
#include "unisono/tensor/allocator.hpp"

namespace unisono::records {

/// An example that a model is most wrong about.
struct WorstExample {
  std::int64_t number = 0;      ///< the example's number in its split
  std::vector<float> answer;    ///< the example's class number, target or rating
  std::vector<float> outputs;   ///< the model's outputs
  double error = 0;             ///< what the examples are ordered by
  std::vector<float> features;  ///< [C, H, W] as the model takes them; empty where examples are not a table
  /// Tables with named columns: the values as the table's source had them, "age = 39, colour = red".
  std::string values = {};
  std::string file = {};  ///< the file that it was made of; empty: the set does not say
};

/// For some vectors of a model's table, the vectors that point in the most similar directions.
struct Neighbours {
  std::string table;  ///< "words", "users"
  /// A vector's name, and its neighbours.
  struct NamedNeighbours {
    std::string name;
    std::vector<std::pair<std::string, double>> neighbours;  ///< names and cosines, the largest first
  };
  std::vector<NamedNeighbours> rows = {};
};

/// The metrics of a split, and what they were computed from.
struct SplitEvaluation {
  std::string checkpoint;  ///< path of the checkpoint
  std::int64_t step = 0;   ///< step of the checkpoint
  std::string data;
  std::int64_t examples = 0;
  std::vector<models::Metric> metrics = {};
};

/// What a trained model does on examples, for a report about its run.
struct ModelExamples {
  std::optional<ClassReading> reading = {};    ///< how to read a class from outputs; nothing: they are no classes
  std::vector<std::string> classes = {};       ///< names of the classes; empty: they have none
  std::optional<ConfusionMatrix> matrix = {};  ///< confusion matrix of the split
  std::vector<std::string> labels = {};        ///< names of several labels; empty: outputs are something else
  std::optional<MultilabelCounts> label_counts = {};  ///< counts of the split for several labels
  std::vector<RankingCurves> curves =
      {};  ///< ranking curves of the second of two classes, or of each of more, or label
  std::vector<RankingFigures> ranking = {};        ///< the areas under `curves`
  std::string error = {};                          ///< what WorstExample::error is: "distance from the target"
  std::vector<WorstExample> worst = {};            ///< the most wrong first
  data::FeatureShape features = {};                ///< shape of an example's features
  bool are_images = false;                         ///< whether features are pixels
  std::vector<Neighbours> neighbours = {};         ///< neighbours in each table of vectors that the model has
  std::optional<SplitEvaluation> evaluation = {};  ///< evaluation of the split; nothing: the split is that of training
};

}  // namespace unisono::records
