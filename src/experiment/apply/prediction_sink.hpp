#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apply/figures/class_reading.hpp"
#include "unisono/tensor/allocator.hpp"

namespace unisono::experiment {

/// Where predictions go, on rank 0. The file appears under its name when all of it is written.
class PredictionSink {
 public:
  virtual ~PredictionSink() = default;
  /// Some consecutive examples of one rank's part, which come in order; the parts of different ranks come mixed.
  /// \param first which example of the split the first row is
  /// \param rows [count, K] \param answers [count, SinkOptions::answer_width]
  virtual void write(int rank, std::int64_t first, View rows, View answers) = 0;
  /// \throws OutputError
  virtual void finish() = 0;
};

struct SinkOptions {
  std::string path;  ///< FILE.h5 or FILE.csv
  std::int64_t examples = 0;
  Index outputs = 1;                         ///< K
  std::optional<ClassReading> classes = {};  ///< how an example's outputs say its class; nothing: they do not
  std::vector<std::string> class_names = {};
  std::string answer = {};  ///< what each example is to be compared with: label, target, rating; empty: nothing
  Index answer_width = 0;   ///< values of it
  std::string layer = {};   ///< whose outputs these are; empty: the model's
  bool overwrite = false;
  int ranks = 1;
  /// FILE.csv: what stands behind an example's number, e.g. ",user,item" on top and ",ann,tea"; may be empty.
  std::string label_names = {};
  std::function<std::string(std::int64_t example)> label = {};
};

/// A file that exists is replaced only where that is wanted, and then only by earlier predictions' successors: a set, a
/// checkpoint, or whatever else it may be, is left alone. \throws OutputError
void require_replaceable(const std::string& path, bool overwrite);

/// \throws ConfigError for another ending, OutputError where it cannot be written
std::unique_ptr<PredictionSink> make_prediction_sink(const SinkOptions& options);

}  // namespace unisono::experiment
