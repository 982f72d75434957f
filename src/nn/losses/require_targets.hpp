#pragma once

#include "unisono/nn/layer.hpp"

namespace unisono {

/// \throws ConfigError unless each output has a target of its own; `loss` for the message
void require_targets(const char* loss, const Shape& out, Index target_size);

}  // namespace unisono
