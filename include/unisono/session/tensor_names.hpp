#pragma once

#include <optional>
#include <string>
#include <vector>

#include "unisono/models/model.hpp"
#include "unisono/tensor/layout.hpp"

// The names and shapes of a model's parameters in other programs. A block of θ is one tensor there, or several ones
// whose rows follow each other in the block.

namespace unisono::session {

/// Rows of a block that are a tensor in a file.
struct TensorRows {
  std::string tensor;          ///< its name
  std::vector<Index> shape;    ///< its shape
  Index first = 0, rows = 0;   ///< the rows of the block
  bool transposed = false;     ///< the tensor is [row size, rows]: a column for each row of the block
  bool may_be_longer = false;  ///< of a longer tensor the first rows are taken
};

/// Whose names they are.
enum class NameKind { unisono, pytorch, gpt2, llama };
/// "unisono", "PyTorch", "GPT-2", "Llama".
std::string_view name_of(NameKind kind);

/// The tensors of a model's blocks.
struct TensorNames {
  NameKind kind = NameKind::unisono;
  std::vector<std::vector<TensorRows>> blocks;  ///< for each block of the layout; empty: it has no tensor
  std::string embedding, head;                  ///< tensors of the embedding and of the unembedding; empty: none
  bool tied = false;                            ///< whether the unembedding has the weights of the embedding
};

/// unisono's own names: those of the blocks, in their canonical shapes. Optimizer state in θ has none.
TensorNames own_names(const ParameterLayout& layout);
/// unisono's own names for the parameters of a model.
TensorNames own_names(const models::Model& model);

/// The names of Hugging Face's transformers for a language model that is built from the layers of GPT-2 or of Llama,
/// whatever the config calls them; nothing for other models.
/// GPT-2: learned positions; layer_norm, attention with biases; dense, gelu_tanh, dense. Its weights are transposed.
/// Llama: no positions of their own; rms_norm, rotary attention, swiglu, dense; any of them with biases or without.
std::optional<TensorNames> transformers_names(const models::Model& model);

/// The names and shapes that a network's parameters have in PyTorch, in modules that are called as the layers are:
/// norms have `weight` and `bias`, and the weights of dense layers are [units, inputs]. Nothing for other models.
std::optional<TensorNames> pytorch_names(const models::Model& model);
/// Likewise of a network's running statistics: `running_mean` and `running_var`.
TensorNames pytorch_statistics(const ParameterLayout& statistics);

}  // namespace unisono::session
