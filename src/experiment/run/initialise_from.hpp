#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "machine/parts.hpp"
#include "unisono/base/log.hpp"
#include "unisono/data/dataset.hpp"

// `train.initialise_from`: a run begins at what another one has learnt.

namespace unisono::experiment {

/// The blocks of a group of a checkpoint, by name.
using StoredShapes = std::map<std::string, std::vector<Index>>;

/// What of a layout's blocks another model has, by the name and the shape. An update rule's own state never fits.
struct Fitting {
  std::vector<bool> blocks;  ///< whether each one of the layout does
  int count = 0;
  Index parameters = 0;  ///< of these blocks
  /// What begins anew, by layer, or by block where others of the layer fit: "dense2: 10 × 500 there, 3 × 500 here".
  std::vector<std::string> begin;
  std::vector<std::string> foreign;  ///< layers that are there alone
};
Fitting fitting_blocks(const ParameterLayout& layout, const StoredShapes& there);

/// What the new run has to say of itself.
struct NewRun {
  const Config& config;
  data::Dataset& data;
};

/// Overwrites the parameters and running statistics that fit with those of the run, or checkpoint, that the config
/// names; nothing where it names none. Says what was taken and what was not. Collective. \throws CheckpointError where
/// there is no such run; ConfigError where nothing fits, or rows would stand for other words, users or items than here
/// \return what was said
std::vector<std::string> initialise_from_other(ModelParts& parts, const NewRun& run, Log& log);

}  // namespace unisono::experiment
