#pragma once

#include "machine/parts.hpp"

namespace unisono::experiment {

/// Checks that a run whose sums are to be reproducible can make them so. \throws ConfigError
void require_reproducible(const Config& config, const ModelParts& parts);

}  // namespace unisono::experiment
