#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "unisono/models/model.hpp"
#include "unisono/settings/config.hpp"

namespace unisono::session {

/// Where a block of a model gets its first values from.
struct BlockSource {
  std::string block;
  std::string shape;  ///< "10 × 500"
  std::string from;   ///< tensors of a file, or "initial values"
  bool from_file = false;
};

/// What a file of weights gives to a model, block by block in the order of the layers.
struct InitialWeights {
  std::string path;
  std::vector<BlockSource> blocks;
  std::vector<std::string> unused;  ///< tensors that nothing is read from, by their names in the file
};

/// The rows of a table "in this model, shape, from". \param most rows; where there are more, some in the middle are
/// counted and not shown
std::vector<std::string> table_of(const InitialWeights& weights,
                                  std::size_t most = std::numeric_limits<std::size_t>::max());

/// What the file gives that train.initialise_from names; nothing: it names no file of weights, or nothing. This process
/// alone reads what the file has, but no values. \throws ConfigError, CheckpointError
std::optional<InitialWeights> initial_weights(const settings::Config& config, const models::Model& model);

}  // namespace unisono::session
