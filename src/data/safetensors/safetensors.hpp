#pragma once

#include "unisono/data/tensors.hpp"

namespace unisono::data {

/// Reads consecutive numbers of a tensor that a safetensors file holds, whatever they are.
/// \param values [at most tensor.size() − first], overwritten \pre tensor.holds_parameters()
void read_plain_tensor(const StoredTensor& tensor, Index first, MutableView values);

}  // namespace unisono::data
