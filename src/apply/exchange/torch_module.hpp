#pragma once

#include <string>

#include "unisono/apply/trained_model.hpp"

namespace unisono::apply {

/// The text of a Python file that builds a trained network as a module of PyTorch, and loads its weights from the
/// safetensors file beside it. \param safetensors its path \throws ConfigError naming a layer that does
/// not say what it computes
std::string torch_module_of(const TrainedModel& model, const std::string& safetensors);

}  // namespace unisono::apply
