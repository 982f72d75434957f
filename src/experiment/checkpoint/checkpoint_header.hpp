#pragma once

#include <string>

#include "unisono/experiment/checkpoint.hpp"

namespace unisono::experiment {

/// The header as JSON, without the config's text.
std::string to_json(const CheckpointHeader& header);
/// \throws CheckpointError for another format or version
CheckpointHeader header_from_json(const std::string& json);

}  // namespace unisono::experiment
