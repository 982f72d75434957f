#pragma once

#include <string>
#include <vector>

#include "unisono/data/tensors.hpp"
#include "unisono/models/model.hpp"
#include "unisono/session/tensor_names.hpp"
#include "unisono/settings/config.hpp"

// Which tensors of a file are the parameters and running statistics of a model.

namespace unisono::session {

/// Blocks of a layout, with the tensors of a file that they get their values from.
struct TensorFit {
  TensorNames names;                ///< as the file spells them
  std::vector<bool> blocks;         ///< for each block of the layout whether the file has it
  int tensors = 0;                  ///< how many tensors are read
  Index parameters = 0;             ///< in the blocks that the file has
  std::vector<std::string> begin;   ///< blocks that keep their initial values
  std::vector<std::string> unused;  ///< tensors that nothing is read from
  std::vector<std::string> notes;   ///< what a user should know of it, in sentences
  bool compares_head = false;  ///< whether the file must hold the same values for the embedding and the unembedding
};

/// Finds the tensors of a model's parameters by their names: unisono's own ones, or those of Hugging Face's
/// transformers, with the prefix of the whole model ("transformer.", "model.") or without.
/// \param path for messages \throws ConfigError where a tensor has another shape than the model needs, where a part of
/// a block is missing, or where nothing fits
TensorFit fit_tensors(const models::Model& model, const data::StoredTensors& stored, const std::string& path);

/// Finds running statistics by their own names. \throws ConfigError where one has another shape
TensorFit fit_statistics(const ParameterLayout& layout, const data::StoredTensors& stored, const std::string& path);

/// A model's parameters and running statistics, with the tensors of a file that they get their values from.
struct ModelFit {
  data::StoredTensors tensors;  ///< by the names that they have here
  bool in_order = false;        ///< whether their order gave them these names
  TensorFit parameters, statistics;
  std::vector<std::string> unused;  ///< tensors that nothing is read from, by their names in the file
};

/// Finds the tensors of a model as the config says: by their names, which its rules may change, or by their order.
/// \param weights initialise_from, for messages, and what it says of names and order \throws ConfigError
ModelFit fit_model(const models::Model& model, const data::StoredTensors& stored,
                   const settings::WeightSettings& weights);

/// Checks that the config does not ask for other names or for the order of tensors of a run, whose names are the
/// model's. \throws ConfigError
void require_no_renaming(const settings::WeightSettings& weights);

}  // namespace unisono::session
