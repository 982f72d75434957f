#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/nn/initialiser.hpp"
#include "unisono/nn/layer.hpp"
#include "unisono/nn/network.hpp"

namespace unisono::nn {

/// A leaf of divided layers (TensorPart) for which a layer is made.
struct Leaf {
  int number = 0, leaves = 1;
  AxisRange outputs = {};  ///< the outputs that the layer shall have of all its outputs; none: all
  AxisRange inputs = {};   ///< the inputs that it gets of all its inputs, and adds up; none: all
};

/// What a layer may need to know about its network when it is made.
struct LayerContext {
  bool steps_together = true;  ///< all ranks compute each step together: statistics over all of them make sense
  kernels::Winograd winograd = kernels::Winograd::tiles_2x2;
  std::uint32_t number = 0;  ///< counts the layers of the config from 0; keys random numbers
  Index vocabulary = 0;      ///< different tokens, where the network's inputs are token numbers
  float label_smoothing = 0;
  std::string embedding = {};  ///< name of the layer that makes vectors of them; empty: there is none
  Index embedding_units = 0;
  TensorPart part = {};  ///< of an embedding or unembedding
  Leaf leaf = {};        ///< of other layers that are divided
};

using MakeLayer = std::unique_ptr<Layer> (*)(const LayerSettings& settings, const Shape& in,
                                             const LayerContext& context);

/// One of the operations that a layer of the config consists of.
struct Part {
  std::string name;  ///< after the layer's own name: "attention1.output"
  std::string kind;  ///< for the table of layers
  std::unique_ptr<Layer> layer;
};
/// Makes the parts of a layer, each with the shape of the part before as inputs.
using MakeParts = std::vector<Part> (*)(const LayerSettings& settings, const Shape& in, const LayerContext& context);

/// How build_graph treats a kind.
enum class LayerForm {
  operation,  ///< the layer that `make` gives, or the parts that `make_parts` gives
  flatten,    ///< changes only the shape
  residual,   ///< a branch and a shortcut, and the addition of their outputs
  gate,       ///< layers that compute factors, and the product of their inputs with these
  repeat      ///< layers, several times, each time with parameters of their own
};

/// How a layer's work can be divided into leaves.
enum class Divided {
  never,     ///< it cannot
  heads,     ///< by heads, from its inputs to its outputs
  outputs,   ///< by its outputs, where a layer that can be divided by inputs follows
  elements,  ///< it computes each element by itself
};

/// A value of `kind` in `layers = [ … ]`.
struct LayerKind {
  std::string_view name, meaning;
  void (*describe)(LayerSettings& settings, ConfigVisitor& visitor) = nullptr;  ///< its keys; null: it has none
  MakeLayer make = nullptr;  ///< of an operation. \throws ConfigError, to which the builder adds the place
  LayerForm form = LayerForm::operation;
  MakeParts make_parts = nullptr;  ///< in place of `make`
  bool of_sequences = false;       ///< takes sequences of vectors, too
  Divided divided = Divided::never;
  bool divided_by_inputs = false;  ///< whether leaves can have parts of its inputs, whose outputs are added up
};

/// The kind of layer that turns token numbers into vectors.
inline constexpr std::string_view kEmbedding = "embedding";
/// The kind of layer that gives the loss of a language model.
inline constexpr std::string_view kUnembedding = "unembedding";

/// The kind of layer in which the rows of a sequence see each other.
inline constexpr std::string_view kAttention = "attention";

/// The kind of layer that makes one row of a sequence.
inline constexpr std::string_view kSequencePool = "sequence_pool";

/// Every kind of layer. A new one needs a row here and its own file; and kernels, where it needs new ones.
const std::vector<LayerKind>& layer_kinds();

/// The kind of this name, or nullptr.
const LayerKind* find_layer_kind(std::string_view name);

/// The limit of channels, units, and sizes in pixels: an example then has at most 2⁶⁰ values.
inline constexpr std::int64_t kLargestSize = std::int64_t{1} << 20;

/// Appends a block; returns it with its offset.
Block declare_block(ParameterLayout& layout, Block block);

/// The biases of PyTorch's layers are drawn, like its weights, from U(±1/√fan_in); elsewhere they start at zero.
Initialiser bias_initialiser(Initialiser weight_initialiser);

/// A setting of one number for both directions, or [height, width].
struct Pair {
  Index height, width;
};
/// \param values empty: `otherwise`. \throws ConfigError naming the setting unless there are one or two numbers
Pair pair_of(const std::vector<std::int64_t>& values, Pair otherwise, const char* setting);
std::string text_of(Pair pair);

/// \throws ConfigError where `shape` is not an image; `kind` is for the message
void require_image(const Shape& shape, const char* kind);

}  // namespace unisono::nn
