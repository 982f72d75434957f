#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unisono/nn/initialiser.hpp"
#include "unisono/nn/layer.hpp"

namespace unisono::nn {

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
