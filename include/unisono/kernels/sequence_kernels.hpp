#pragma once

#include <cstdint>
#include <span>

#include "unisono/kernels/layer_kernels.hpp"
#include "unisono/kernels/specs.hpp"
#include "unisono/tensor/exact_sum.hpp"
#include "unisono/tensor/layout.hpp"

namespace unisono::kernels {

/// Stands behind the last token of a text that is shorter than the others.
inline constexpr std::int32_t kPaddingToken = -1;

/// Vectors of tokens. A batch has B sequences of T rows; row t of sequence b is number b·T + t of all rows.
struct EmbeddingSpec {
  Index vocabulary = 1;  ///< V, tokens that W has
  Index units = 1;       ///< C
  Index rows = 1;        ///< T
  bool sinusoidal = false;
  Index first = 0;  ///< the first token that W has

  Extent out() const { return {units}; }
};

/// Attention of T rows of a sequence to each other, in H heads of D values. Of queries there are H heads, of keys and
/// values G: head h reads key and value head h · G / H (grouped queries: Ainslie et al. 2023; G = 1: Shazeer 2019).
struct AttentionSpec {
  Index rows = 1;       ///< T
  Index heads = 1;      ///< H
  Index key_heads = 1;  ///< G; divides H
  Index width = 1;      ///< D; even where rotary
  bool causal = true;   ///< row t sees rows 0 … t; false: all rows
  double rotary = 0;    ///< θ of rotary positions (Su et al. 2021); 0: none

  /// Of a row: queries [H][D], then keys [G][D], then values [G][D].
  Extent in() const { return {(heads + 2 * key_heads) * width}; }
  Extent out() const { return {heads * width}; }  ///< [H][D]
  Extent log_sums() const { return {heads}; }
};

/// The head of a language model: logits z = W x of a row, and their cross-entropy.
struct HeadSpec {
  Index units = 1;       ///< C
  Index vocabulary = 1;  ///< V
  float smoothing = 0;   ///< as in LossKernels::softmax_cross_entropy
  /// The vocabulary is divided into L leaves; leaf j has the tokens [share_of(V, j, L), share_of(V, j + 1, L)). What
  /// they give to sums is added up in the order of a tree (comm::SumTree).
  int leaves = 1;
  int first = 0, count = 1;  ///< the leaves whose rows of W this rank has

  Index token(int leaf) const { return share_of(vocabulary, leaf, leaves); }  ///< the first one of a leaf
  Index held() const { return token(first + count) - token(first); }          ///< tokens that this rank has
};

/// What a head is given.
struct HeadInputs {
  Index rows = 0;                             ///< n
  View x = {};                                ///< [n] rows of C
  View w = {};                                ///< [spec.held(), C] row-major
  std::span<const std::int32_t> labels = {};  ///< [n] in [0, V), or −1: the row has no label; plain memory
};

/// The gradients of a head that are wanted.
struct HeadGradients {
  float scale = 0;
  MutableView dx =
      {};  ///< [n] rows of C, overwritten: this rank's part of the sum over the vocabulary; empty: unwanted
  MutableView dw = {};             ///< [spec.held(), C]; empty: unwanted
  Write write = Write::overwrite;  ///< what happens to dw
};

/// One row for each sequence of T rows, of which only the first ones are real; what is behind them is padding.
enum class SequencePool { last, mean };
struct SequencePoolSpec {
  SequencePool kind = SequencePool::last;
  Index units = 1;  ///< C
  Index rows = 1;   ///< T
};

/// Kernels of layers that work on sequences. Activations of B sequences of T rows are activations of a batch of B·T
/// examples, of the extent of a row: kernels of LayerKernels treat each row as an example. Results of a row do not
/// depend on how many sequences there are.
class SequenceKernels {
 public:
  virtual ~SequenceKernels() = default;

  /// x = token numbers, as 32-bit integers in the memory of floats. \param tokens [n], plain memory
  /// \param x activations of extent {1} and n rows
  virtual void load_tokens(std::span<const std::int32_t> tokens, MutableView x) = 0;

  /// y[b, t] = W[token − spec.first] + P[t]. For a token that W does not have, such as kPaddingToken, −0 stands in
  /// place of its row, so that a sum of the outputs of several parts of a vocabulary is exact. \param batch B \param
  /// tokens [B·T] as load_tokens wrote them \param w [V, C] row-major \param positions P, [T, C] row-major; or empty:
  /// sinusoids where spec.sinusoidal (Vaswani et al. 2017: P[t, 2i] = sin(t / 10000^(2i/C)), P[t, 2i + 1] = cos(…)),
  /// else zeros \param y [B·T] rows of C
  virtual void embedding_forward(const EmbeddingSpec& spec, Index batch, View tokens, View w, View positions,
                                 MutableView y) = 0;
  /// Where wanted (not empty), dW[v] (+)= Σ dy over the rows whose token is spec.first + v (rows of tokens that W does
  /// not have are left out), and dP[t] (+)= Σ_b dy[b, t]. A sum is made in the order of the rows, and then added.
  virtual void embedding_backward(const EmbeddingSpec& spec, Index batch, View tokens, View dy, MutableView dw,
                                  MutableView dpositions, Write write) = 0;

  /// For each sequence and head: y_i = Σ_j p_ij v_j, p_i = softmax_j(q_i·k_j / √D) over the rows j that row i sees.
  /// Takes memory of O(T), not T²: Dao et al. 2022 (blocks, with running maximum and sum: Milakov & Gimelshein 2018).
  /// Where rotary, q and k are turned by their row's angles first: of the pair (x_i, x_{i + D/2}) by t · θ^(−2i/D), the
  /// order of Hugging Face's Llama.
  /// \param batch B \param x [B·T] rows of spec.in() \param y [B·T] rows of spec.out()
  /// \param log_sums [B·T] rows of H: ln Σ_j exp(q_i·k_j / √D), for attention_backward; empty: not wanted
  /// \param dropout of probabilities p, with rate 0: none. The mask is a function of the key, the example and the
  /// element (h · T + i) · T + j \param examples [B] where there is dropout
  virtual void attention_forward(const AttentionSpec& spec, Index batch, View x, const DropoutKey& dropout,
                                 std::span<const std::uint64_t> examples, MutableView y, MutableView log_sums) = 0;
  /// dx = the gradient of attention_forward; computes the probabilities again.
  virtual void attention_backward(const AttentionSpec& spec, Index batch, View x, View y, View log_sums,
                                  const DropoutKey& dropout, std::span<const std::uint64_t> examples, View dy,
                                  MutableView dx) = 0;

  /// Cross-entropy of logits W x, of which only some rows exist at a time. Adds Σ loss, the number of rows with a
  /// label, and hits to `sums`, the same on all ranks that have a part of W; where wanted, dx = scale · ∂Σ loss/∂x and
  /// dW (+)= scale · ∂Σ loss/∂W. A row without a label does not count, and its dx is 0.
  /// \param group the ranks that have the other leaves; null: this rank has all. Collective over them
  virtual void head_loss(const HeadSpec& spec, const HeadInputs& inputs, const HeadGradients& gradients,
                         TensorGroup* group, LossSums& sums) = 0;

  /// y = γ x / √(mean(x²) + ε), over each row's own values (Zhang & Sennrich 2019). \param gamma [extent]
  virtual void rms_norm_forward(const NormSpec& spec, Index batch, View x, View gamma, MutableView y) = 0;
  /// dx, and dγ (+)=, where they are wanted (not empty).
  virtual void rms_norm_backward(const NormSpec& spec, Index batch, View x, View gamma, View dy, MutableView dx,
                                 MutableView dgamma, Write write) = 0;

  /// y[b] = x[b, n_b − 1], or the mean of x[b, t] over t < n_b, added up in the order of the rows.
  /// \param batch B \param x [B·T] rows of C \param lengths [B] n_b, from 1 to T, in plain memory; empty: all are T
  /// \param y [B] rows of C
  virtual void sequence_pool_forward(const SequencePoolSpec& spec, Index batch, View x,
                                     std::span<const std::int32_t> lengths, MutableView y) = 0;
  /// dx[b, t] = dy[b] where t is n_b − 1, or dy[b] / n_b where t < n_b; else 0.
  virtual void sequence_pool_backward(const SequencePoolSpec& spec, Index batch, std::span<const std::int32_t> lengths,
                                      View dy, MutableView dx) = 0;

  /// y[i] = silu(x[i]) · x[F + i], silu(z) = z σ(z) (SwiGLU: Shazeer 2020). \param units F \param x rows of 2F
  /// \param y rows of F
  virtual void gate_forward(Index units, Index batch, View x, MutableView y) = 0;
  /// dx = the gradient of gate_forward.
  virtual void gate_backward(Index units, Index batch, View x, View dy, MutableView dx) = 0;
};

}  // namespace unisono::kernels
