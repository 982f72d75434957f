#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "unisono/data/tensors.hpp"
#include "unisono/models/model.hpp"

// train.initialise_by = "order": tensors find their place in the model by their order in the file.

namespace unisono::session {

/// A block of a model's parameters or of its running statistics.
struct ModelBlock {
  const Block* block = nullptr;
  bool statistic = false;
  std::size_t number = 0;  ///< in its layout
};

/// The blocks of a model without those of optimizer state: layer by layer, the statistics of a layer behind its
/// parameters.
std::vector<ModelBlock> blocks_by_layer(const models::Model& model);

/// Whether a tensor has the numbers of a block, in the block's order: its shape but for trailing ones; or a row for
/// each of the block's rows.
bool has_shape(const std::vector<Index>& there, const std::vector<Index>& wanted);

/// "10 × 500", without trailing ones (height and width).
std::string extent_text(std::vector<Index> shape);

/// The tensors of a file by the names of the blocks whose place they have.
struct OrderedTensors {
  data::StoredTensors tensors;
  std::vector<std::string> left_out;  ///< names in the file: of other types than floats, or behind the last block
  std::vector<std::string> notes;
};

/// Goes through the tensors in the order of the file, and through the model's blocks: by layer, as PyTorch orders them,
/// or, where that does not fit, with all statistics at the end, as `unisono export` does. Where a file's tensors are
/// sorted by name, numbers in names count as numbers, and a layer's weights come before its biases.
/// \param path for messages \throws ConfigError where a tensor has not the shape of the block that is next
OrderedTensors tensors_in_order(const models::Model& model, const data::StoredTensors& stored, const std::string& path);

}  // namespace unisono::session
