#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "unisono/nn/decodable.hpp"
#include "unisono/nn/network.hpp"

namespace unisono::nn {

/// Computes the logits of a language model position by position. Keys and values of earlier positions are kept, so that
/// another position costs one pass over the weights. Several sequences may be computed together, which reads the
/// weights once for all of them. The logits of a position depend on the tokens of its sequence up to there alone, bit
/// for bit: not on the steps in which they are computed, on other sequences, or on the number of threads.
class Decoder {
 public:
  /// \param network of a language model, made with this backend \param theta its parameters \param sequences that are
  /// computed side by side. All must outlive the decoder.
  /// \throws ConfigError for a network that is no language model, naming a layer that sees later positions or has no
  /// step of decoding, or where the backend lacks the kernels
  Decoder(const Network& network, kernels::Backend& backend, View theta, Index sequences);
  ~Decoder();

  Index context() const { return network_.in().rows; }           ///< T: positions that a sequence can have
  Index vocabulary() const { return network_.in().vocabulary; }  ///< V
  Index sequences() const { return sequences_; }
  /// Rows of one step, at most.
  Index most_rows() const { return most_rows_; }
  /// Bytes of the keys and values of a sequence.
  static Index bytes_of_sequence(const Network& network);

  /// Computes positions, one row each; those of a sequence are in their order, and all before them were computed
  /// earlier or are among the rows. What was computed of a sequence from such a position on is forgotten.
  /// \param rows [n], n ≤ most_rows(), positions below context() \param tokens [n] at these positions
  /// \param logits [k][V] of the last k rows, k ≤ n; overwritten
  void decode(std::span<const kernels::DecodeRow> rows, std::span<const std::int32_t> tokens, MutableView logits);

 private:
  struct Plan;  // where the activations and caches of the nodes are

  const Network& network_;
  kernels::DecodeKernels& kernels_;
  View theta_;
  Index sequences_, most_rows_;
  std::unique_ptr<Plan> plan_;
};

}  // namespace unisono::nn
