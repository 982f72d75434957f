#pragma once

#include <functional>
#include <string>
#include <vector>

#include "validation/folds.hpp"

namespace unisono::jobs {

/// The set whose examples were predicted.
struct PredictedSet {
  std::string path;
  const std::vector<std::string>& class_names;  ///< empty: it does not name them
};

/// Collects what the models of the folds predicted for their validation examples: FOLDER/predictions.csv has a line for
/// each fold and example, by example: its number, the fold, its label where there is one, and the outputs. Where every
/// example was predicted once, FOLDER/predictions.h5 has the outputs, too, as `unisono predict` writes them.
/// \param outputs_of a fold's outputs, [examples, outputs]; a fold that has none is left out
/// \throws OutputError
void write_predictions(const std::string& folder, const Folds& folds, const PredictedSet& set,
                       const std::function<std::vector<float>(std::int64_t fold)>& outputs_of);

/// The floats of a file; none where it does not exist. \throws OutputError
std::vector<float> read_floats(const std::string& path);

}  // namespace unisono::jobs
