#pragma once

#include <cstdint>
#include <span>

#include "unisono/kernels/decode_kernels.hpp"
#include "unisono/tensor/layout.hpp"

namespace unisono::nn {

/// The arguments of one step of decoding, other than activations: n positions of sequences, one row each. Owns nothing.
struct DecodeStep {
  kernels::DecodeKernels& kernels;
  View parameters;                           ///< θ, each block in canonical order
  std::span<const kernels::DecodeRow> rows;  ///< [n]
  std::span<const std::int32_t> tokens;      ///< [n] the token at each position

  Index size() const { return std::ssize(rows); }
  View parameter(const Block& block) const { return part(parameters, block); }
};

/// The tensors of a layer in a step of decoding, row-major.
struct DecodeViews {
  View x;             ///< [n] rows of the inputs; of an embedding empty
  View residual;      ///< [n] rows of the outputs; empty where the layer has one input
  MutableView y;      ///< [n] rows of the outputs, overwritten; x itself only where LayerTraits::in_place
  MutableView cache;  ///< cached_of_sequence() floats for each sequence, which the layer keeps from step to step
};

/// A layer that can compute single positions of sequences, as language models make texts: what a position gives
/// depends on the same and earlier positions only. A layer implements it in addition to Layer.
class Decodable {
 public:
  /// Floats that the layer keeps of each sequence.
  virtual Index cached_of_sequence() const { return 0; }
  /// \throws ConfigError where the layer's settings let a position see later ones
  virtual void require_decodable() const {}
  /// Computes y, the same values as Layer::forward up to rounding.
  virtual void decode(const DecodeStep& step, const DecodeViews& views) const = 0;

 protected:
  ~Decodable() = default;
};

}  // namespace unisono::nn
