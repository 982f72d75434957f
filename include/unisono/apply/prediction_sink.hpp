#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "unisono/records/model_examples.hpp"
#include "unisono/tensor/allocator.hpp"

namespace unisono::apply {

/// Writes predictions to a file, on rank 0. The file gets its name when it is complete.
class PredictionSink {
 public:
  virtual ~PredictionSink() = default;
  /// Writes the predictions of consecutive examples of one rank's part. The calls for one rank are in order; those for
  /// different ranks may interleave.
  /// \param first number in the split of the first row's example
  /// \param rows [count, K] \param answers [count, SinkOptions::answer_width]
  virtual void write(int rank, std::int64_t first, View rows, View answers) = 0;
  /// Completes the file and gives it its name. \throws OutputError
  virtual void finish() = 0;
};

/// Where predictions are written, and in which columns.
struct SinkOptions {
  std::string path;  ///< FILE.h5 or FILE.csv
  std::int64_t examples = 0;
  Index outputs = 1;                                  ///< K, values per example
  std::optional<records::ClassReading> classes = {};  ///< how to read a class from the outputs; empty: not classes
  std::vector<std::string> class_names = {};
  /// Names of the labels whose probabilities the outputs are; empty: they are something else.
  std::vector<std::string> labels = {};
  std::string answer = {};  ///< name of the examples' known answers: label, target, rating; empty: none
  Index answer_width = 0;   ///< values per answer
  std::string layer = {};   ///< the layer whose outputs are written; empty: the model's outputs
  bool overwrite = false;
  int ranks = 1;
  /// FILE.csv: additional columns after the example's number: their header, e.g. ",user,item", and their values for an
  /// example, e.g. ",ann,tea". May be empty.
  std::string label_names = {};
  std::function<std::string(std::int64_t example)> label = {};
};

/// The name of the n-th column of outputs: p0, p1, … for probabilities of classes, margin0, … for margins of classes,
/// y0, … for values. A single output of a classifier belongs to the second of two classes: p1. Labels of which an
/// example may have several have columns of their own names, as columns_of says.
std::string output_name(const std::optional<records::ClassReading>& classes, Index outputs, Index n);

/// The columns of a table of predictions; of several labels: `labels`, those of the example, `predicted`, both as
/// join_labels gives them, and p_cat, p_dog, …. They follow the example's number and SinkOptions::label_names.
std::vector<std::string> columns_of(const SinkOptions& options);

/// Predictions as lines of CSV.
class PredictionRows {
 public:
  explicit PredictionRows(const SinkOptions& options) : options_(options) {}
  std::string header() const;  ///< the line of names
  /// The lines of examples. \param first the number of the first \param rows [count, K] \param answers
  /// [count, SinkOptions::answer_width]
  std::string text(std::int64_t first, View rows, View answers) const;

 private:
  SinkOptions options_;
};

/// Checks that a file does not exist or, if `overwrite`, that it holds earlier predictions: a set, a checkpoint or any
/// other regular file is never replaced. \throws OutputError
void require_replaceable(const std::string& path, bool overwrite);

/// Makes the sink that writes SinkOptions::path, by its file name extension.
/// \throws ConfigError for another file name extension, OutputError if the file cannot be written
std::unique_ptr<PredictionSink> make_prediction_sink(const SinkOptions& options);

}  // namespace unisono::apply
