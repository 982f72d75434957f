#pragma once

#include <string>

#include "unisono/session/checkpoint.hpp"

namespace unisono::session {

/// The header as JSON, without the config's text.
std::string to_json(const CheckpointHeader& header);
/// \throws CheckpointError for another format or version
CheckpointHeader header_from_json(const std::string& json);

}  // namespace unisono::session
