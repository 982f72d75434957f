#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "unisono/tensor/allocator.hpp"

namespace unisono {

/// Where predictions go, on rank 0. The file appears under its name when all of it is written.
class PredictionSink {
 public:
  virtual ~PredictionSink() = default;
  /// Some consecutive examples of one rank's part, which come in order; the parts of different ranks come mixed.
  /// \param first which example of the split the first row is
  /// \param rows [count, K]
  virtual void write(int rank, std::int64_t first, View rows) = 0;
  /// \throws OutputError
  virtual void finish() = 0;
};

struct SinkOptions {
  std::string path;  ///< FILE.h5 or FILE.csv
  std::int64_t examples = 0;
  Index outputs = 1;     ///< K
  bool classes = false;  ///< whether the largest of an example's outputs names its class
  int ranks = 1;
  /// FILE.csv: what stands behind an example's number, e.g. ",user,item" on top and ",ann,tea"; may be empty.
  std::string label_names = {};
  std::function<std::string(std::int64_t example)> label = {};
};

/// Earlier predictions are replaced; a set, a checkpoint, or whatever else the file may be, is not. \throws OutputError
void require_replaceable(const std::string& path);

/// \throws ConfigError for another ending, OutputError where it cannot be written
std::unique_ptr<PredictionSink> make_prediction_sink(const SinkOptions& options);

}  // namespace unisono
