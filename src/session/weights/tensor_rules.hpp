#pragma once

#include <string>
#include <vector>

#include "unisono/data/tensors.hpp"
#include "unisono/settings/config.hpp"

// train.initialise_map: what the tensors of a file are called in the model.

namespace unisono::session {

/// The tensors of a file by the names that rules give them.
struct RenamedTensors {
  data::StoredTensors tensors;
  std::vector<std::string> left_out;  ///< names in the file
};

/// Renames tensors. The first rule that fits a name counts; a name that none fits stays as it is.
/// \param path for messages \throws ConfigError where a rule fits no tensor, or two tensors get the same name
RenamedTensors rename_tensors(data::StoredTensors tensors, const std::vector<settings::TensorRule>& rules,
                              const std::string& path);

/// "a, b, c and 12 more". \param most how many are named
std::string some_of(const std::vector<std::string>& names, std::size_t most = 5);

}  // namespace unisono::session
