#pragma once

#include <map>
#include <string>
#include <vector>

#include "unisono/base/log.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/session/model_parts.hpp"

// `train.initialise_from`: a run starts from the parameters of another one.

namespace unisono::session {

/// The blocks of a group of a checkpoint, by name.
using StoredShapes = std::map<std::string, std::vector<Index>>;

/// Which blocks of a layout another model has with the same name and shape. Blocks of an update rule's state are never
/// taken.
struct Fitting {
  std::vector<bool> blocks;  ///< for each block of the layout whether it fits
  int count = 0;
  Index parameters = 0;  ///< in these blocks
  /// What keeps its initial values, by layer, or by block if other blocks of the layer fit: "dense2: 10 × 500 in the
  /// checkpoint, 3 × 500 in this model".
  std::vector<std::string> begin;
  std::vector<std::string> foreign;  ///< layers that only the checkpoint has
};
/// \param there the blocks of the other model's checkpoint
Fitting fitting_blocks(const ParameterLayout& layout, const StoredShapes& there);

/// The new run's config and data.
struct NewRun {
  const settings::Config& config;
  data::Dataset& data;
};

/// Overwrites parameters and running statistics with those of the run, checkpoint or safetensors file that the config
/// names, as far as they fit; does nothing if it names none. Logs what was taken and what was not. Collective.
/// \throws CheckpointError if there is no such run, or if a file is damaged; ConfigError if nothing fits, or if a
/// tensor of a safetensors file has another shape; DataError if the rows of the two models belong to different words,
/// users, items or tokens \return the logged lines
std::vector<std::string> initialise_from_other(ModelParts& parts, const NewRun& run, Log& log);

}  // namespace unisono::session
