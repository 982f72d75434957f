#pragma once

#include "unisono/nn/loss.hpp"

namespace unisono::nn {

/// \throws ConfigError unless each output has a target of its own; `loss` for the message
void require_targets(std::string_view loss, const Shape& out, Index target_size);

/// \throws ConfigError unless there is an output for each class of the labels; `loss` for the message
void require_output_for_each_class(const char* loss, const Shape& out, const TargetShape& data);

}  // namespace unisono::nn
