#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "unisono/kernels/sequence_kernels.hpp"
#include "unisono/kernels/specs.hpp"

namespace unisono::kernels {

/// A row of what is computed together: one position of one of several sequences.
struct DecodeRow {
  Index sequence = 0;
  Index position = 0;  ///< from 0
};

/// Floats of the keys and values of a sequence's positions: K [G][T][D], then V [G][T][D].
inline Index cache_size(const AttentionSpec& spec) { return 2 * spec.key_heads * spec.rows * spec.width; }

/// Kernels for language models that make texts: a few rows at a time, which are positions of sequences. A row sees the
/// earlier positions of its sequence by their keys and values, which are kept in a cache. Activations are plain
/// row-major matrices [n][C] in plain memory; parameters are in canonical order. A row's results do not depend on the
/// other rows, nor on the number of threads, bit for bit.
class DecodeKernels {
 public:
  static constexpr std::string_view kOwner = "the generation of text";

  /// y[i] = W[tokens[i]] + P[rows[i].position]. \param tokens [n], each in [0, V) \param w [V, C]
  /// \param positions P, [T, C], or empty: see SequenceKernels::embedding_forward \param y [n][C]
  virtual void decode_embedding(const EmbeddingSpec& spec, std::span<const DecodeRow> rows,
                                std::span<const std::int32_t> tokens, View w, View positions, MutableView y) = 0;
  /// y = f(x Wᵀ + b), f a ReLU or nothing. Reads W once. \param rows n \param x [n][in] \param w [units, in]
  /// \param b [units], or empty: 0 \param y [n][units]
  virtual void decode_dense(const DenseSpec& spec, Index rows, View x, View w, View b, MutableView y) = 0;
  /// Writes the rows' keys and values to the cache, and y as SequenceKernels::attention_forward with a causal mask.
  /// \param x [n] rows of spec.in() \param cache cache_size(spec) floats for each sequence; it holds all positions
  /// before those of `rows` \param y [n] rows of spec.out()
  virtual void decode_attention(const AttentionSpec& spec, std::span<const DecodeRow> rows, View x, MutableView cache,
                                MutableView y) = 0;
  /// As LayerKernels::layer_norm_forward. \param x, y [n][C]
  virtual void decode_layer_norm(const NormSpec& spec, Index rows, View x, View gamma, View beta, MutableView y) = 0;
  /// As SequenceKernels::rms_norm_forward. \param x, y [n][C]
  virtual void decode_rms_norm(const NormSpec& spec, Index rows, View x, View gamma, MutableView y) = 0;
  /// y = activation(x), element by element. y may be x. \param units C \param x, y [n][C]
  virtual void decode_activation(const ActivationSpec& activation, Index units, Index rows, View x, MutableView y) = 0;
  /// As SequenceKernels::gate_forward. \param units F \param x [n][2F] \param y [n][F]
  virtual void decode_gate(Index units, Index rows, View x, MutableView y) = 0;

 protected:
  ~DecodeKernels() = default;
};

}  // namespace unisono::kernels
