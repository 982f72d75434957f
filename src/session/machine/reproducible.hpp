#pragma once

#include "unisono/session/model_parts.hpp"

namespace unisono::session {

/// Checks that a run whose sums are to be reproducible can make them so. \throws ConfigError
void require_reproducible(const settings::Config& config, const ModelParts& parts);

}  // namespace unisono::session
