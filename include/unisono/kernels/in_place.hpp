#pragma once

#include <memory>

#include "unisono/tensor/features.hpp"

// Kernels of models whose examples touch few parameters. They update θ in place, one example after the other. They run
// on the calling thread, and several threads may run them on the same θ without any lock (Niu et al., Hogwild, NIPS
// 2011): updates that are lost when two write the same float at once are part of the method. There is one set of
// kernels for each instruction set; their results differ by rounding.

namespace unisono::kernels {

/// A matrix inside θ with a row for each word, user or item: row i begins at values + i · stride.
struct RowMatrix {
  float* values = nullptr;  ///< aligned to 64 bytes
  Index stride = 0;         ///< floats; a multiple of 16
  Index width = 0;          ///< floats of a row that are in use, padded with zeros to a multiple of 16

  float* row(Index i) const { return values + i * stride; }
};

/// Sums over the examples that a kernel was given, each evaluated before its own update.
struct InPlaceSums {
  double loss = 0;            ///< Σ of the examples' losses, weighted where they have weights, without penalties
  std::int64_t examples = 0;  ///< number of examples in the sums
  std::int64_t correct = 0;   ///< classification: the sign, or the largest output, is the label's
  double squared_error = 0;   ///< regression, ratings: Σ (y − t)²
  double absolute_error = 0;
};

// Linear models
// -------------------------------------------------------------------------------------------------------------------

/// The most features with which a model may train on RowBits.
inline constexpr Index kMostBitFeatures = 128;
/// Which features a sparse row has, all of whose values are 1: bit j % 16 of word j / 16. Zeros: not filled in yet.
struct alignas(16) RowBits {
  std::uint16_t words[kMostBitFeatures / 16];
};

/// Losses of a margin z = w·x + b. Targets are 0 or 1, where y = 2 · target − 1; for `squared` they are numbers t.
enum class MarginLoss {
  logistic,       ///< ln(1 + e^−yz)
  hinge,          ///< max(0, 1 − yz)
  squared_hinge,  ///< max(0, 1 − yz)²
  squared         ///< ½ (z − t)²
};

/// One stochastic gradient step for each example, on the weights of its own features:
///   w_j ← w_j − rate · (ℓ'(z) x_j + λ₂ s_j w_j), then shrunk towards 0 by rate · λ₁ s_j;   b ← b − rate · ℓ'(z)
///   s_j = n / n_j: only n_j of n examples have feature j, so that a whole pass shrinks each weight alike (the
///   penalty's form in Niu et al.). No weight is shrunk beyond 0.
struct LinearStep {
  float rate = 0;
  float l1 = 0, l2 = 0;
  const float* spread = nullptr;  ///< [features] s_j; null where both penalties are 0
  /// Sparse rows: memory in which s is kept for each value of the rows, zeros at first; null: nothing is kept. Only
  /// where InPlaceKernels::keeps_spreads says so.
  float* value_spread = nullptr;
  /// Sparse rows all of whose values are 1: memory for the bits of [rows], zeros at first; null: indices are read. Only
  /// where InPlaceKernels::keeps_bits says so, with mini-batches, without l1 and sums of averaged SGD, and `alone`.
  RowBits* row_bits = nullptr;
  /// Whether no other thread updates the weights meanwhile: they may then be read some time before a step.
  bool alone = true;
  /// The examples' weights, indexed as their targets: factors of ℓ and ℓ', but not of the penalties. Null: all are 1.
  const float* weights = nullptr;
  /// For averaged SGD: the number of updates of the run before this call. Update number t, counted from 0, also makes u
  /// ← u + t · (change of w); after T updates, the mean of w over all of them is w − u / T.
  double updates_before = 0;
  /// The margins of so many consecutive examples are computed before the first of their steps. Weights take the sum of
  /// the steps, in order; the bias, which is in all examples, takes their mean. From 1, plain SGD, to kMostMiniBatch.
  Index mini_batch = 1;
};

inline constexpr Index kMostMiniBatch = 1024;
/// Weights of more than so many features do not stay in the first cache.
inline constexpr Index kFarFeatures = 8192;

/// Weights of one margin.
struct LinearWeights {
  float* weights = nullptr;      ///< [features]
  float* bias = nullptr;         ///< [1]; null: none
  float* weight_sums = nullptr;  ///< [features] u of averaged SGD; null: not kept
  float* bias_sum = nullptr;     ///< [1]; null where weight_sums or bias is
};

/// A part of a linear model's features, [first, last).
struct FeaturePart {
  Index first = 0, last = 0;
  /// Sparse rows: row i has the part's values at [begins[i], ends[i]). \param begins, ends [rows]
  std::span<const std::uint64_t> begins = {}, ends = {};
};

/// Examples of a linear model, sparse rows or a table's.
struct LinearRows {
  const SparseRows* sparse = nullptr;  ///< null: a table
  Index first = 0, last = 0;           ///< range of the sparse rows; all examples of a table are meant
  View values = {};                    ///< table: [count, features]
  Index features = 0;

  Index count() const { return last - first; }
};

/// Weights of K margins: row j has feature j's weight for each class.
struct SoftmaxWeights {
  RowMatrix weights = {};      ///< [features][K]
  float* bias = nullptr;       ///< [weights.width], what is beyond K is 0; null: none
  RowMatrix weight_sums = {};  ///< u of averaged SGD; values null: not kept
  float* bias_sum = nullptr;
  Index classes = 0;  ///< K
};

// Matrix factorization
// -------------------------------------------------------------------------------------------------------------------

/// A step of matrix factorization: r̂ = mean + b_u + c_i + p_u · q_i; for each rating, with e = r − r̂:
///   p_u ← p_u + η_u (e q_i − λ_u p_u),  b_u ← b_u + η_u (e − λ_u b_u), and the same for q_i, c_i with the old p_u
///   η = rate (plain SGD), or rate / √h where h, one number for each row, adds up the mean square of the row's factor
///   gradients: h_u ← h_u + (1/K) ‖e q_i − λ_u p_u‖², after its use (Chin et al., PAKDD 2015, with one rate per row)
struct FactorStep {
  float rate = 0;
  float mean = 0;
  float user_l2 = 0, item_l2 = 0;
  bool adagrad = true;
  bool biases = true;
  bool own_l2 = false;  ///< each row has its own λ, see FactorRows; user_l2 and item_l2 are not used
};

/// Rows of users or items. A row holds K factors, zeros up to `factors.width`, then its bias, its h (above 0) and, if
/// FactorStep::own_l2, its λ.
struct FactorRows {
  RowMatrix factors = {};  ///< stride ≥ width + 16
  Index rank = 0;          ///< K

  float* bias(Index i) const { return factors.row(i) + factors.width; }
  float* squares(Index i) const { return factors.row(i) + factors.width + 1; }
  float* l2(Index i) const { return factors.row(i) + factors.width + 2; }
};

// Word vectors
// -------------------------------------------------------------------------------------------------------------------

/// The outputs of one window: rows of words (or of inner nodes of a Huffman tree), and the target of each, 1 or 0.
struct OutputWords {
  std::span<const std::int32_t> rows;  ///< [O], distinct, O ≤ kMaximumOutputs
  std::span<const float> targets;      ///< [O]
  /// The next window's context and outputs: their rows are prefetched while this window is trained on. Empty: none.
  std::span<const std::int32_t> next_context = {}, next_rows = {};
};

inline constexpr Index kMaximumOutputs = 64;
inline constexpr Index kMaximumWindow = 64;  ///< largest number of words of a context

/// A step of GloVe: J = Σ f(x) (w_r · v_c + b_r + d_c − ln x)² / 2, f(x) = min(1, (x / x_max)^α); each entry makes one
/// Adagrad step on its two rows and their biases: with g the gradient, w ← w − rate g / √G, G ← G + g².
///   Pennington, Socher & Manning, EMNLP 2014, and the order of its published program: G is used before it is added to.
///   That program adds (rate g)² to G and begins with G = 1: this equals a GloveStep of rate 1 that begins with G = 1 /
///   rate².
/// Entries' values must be above 0. The relative error of an update is below 1e-6.
struct GloveStep {
  float rate = 0;
  float x_max = 100, alpha = 0.75F;
};

/// Rows of words or contexts. A row holds D weights, the bias and zeros up to `weights.width`; then the sums G (above
/// 0) of these in the same order, with the same padding.
struct GloveRows {
  RowMatrix weights = {};  ///< stride ≥ 2 · width
  Index dimension = 0;     ///< D; width is D + 1 rounded up to a multiple of 16
};

// -------------------------------------------------------------------------------------------------------------------

/// The kernels of one instruction set.
class InPlaceKernels {
 public:
  virtual ~InPlaceKernels() = default;
  virtual const char* name() const = 0;  ///< "AVX-512", "AVX2", "portable"

  /// Whether LinearStep::value_spread makes penalties on sparse rows faster: it takes 4 bytes for each value of a set.
  virtual bool keeps_spreads(Index features) const = 0;
  /// Whether LinearStep::row_bits makes mini-batches faster. \param row_values values of a row, on average
  virtual bool keeps_bits(Index features, double row_values) const = 0;
  /// Makes a LinearStep for each of the rows [first, last), in order. \param targets [rows.rows()]
  virtual InPlaceSums linear(const SparseRows& rows, View targets, Index first, Index last, MarginLoss loss,
                             const LinearStep& step, const LinearWeights& weights) const = 0;
  /// Makes a LinearStep for each of some contiguous rows of `features` numbers, in order. \param values, targets of
  /// `count` examples
  virtual InPlaceSums linear(View values, View targets, Index count, Index features, MarginLoss loss,
                             const LinearStep& step, const LinearWeights& weights) const = 0;
  /// Makes a LinearStep for each of the rows [first, last), in order, with the cross-entropy of a softmax over K
  /// margins: dℓ/dz = softmax(z) − 1[label].
  virtual InPlaceSums softmax(const SparseRows& rows, View targets, Index first, Index last, const LinearStep& step,
                              const SoftmaxWeights& weights) const = 0;
  /// Makes a LinearStep for each of some contiguous rows of `features` numbers, in order, with the cross-entropy of a
  /// softmax over K margins. \param values, targets of `count` examples
  virtual InPlaceSums softmax(View values, View targets, Index count, Index features, const LinearStep& step,
                              const SoftmaxWeights& weights) const = 0;

  // What a step on a mini-batch is made of, for threads that divide its features: sums of the parts' margins, moves,
  // the parts' steps.
  /// margins[i] = Σ w_j x_ij over the part's features, + b where there is a bias. \param margins [count], overwritten
  virtual void part_margins(const LinearRows& rows, const FeaturePart& part, const LinearWeights& weights,
                            MutableView margins) const = 0;
  /// moves[i] = rate · weight_i · ℓ'(margins[i]); adds the losses of the margins to `sums`, where it is not null.
  /// \param targets, weights of the examples; weights may be empty
  virtual void moves(MarginLoss loss, View targets, View weights, float rate, View margins, MutableView moves,
                     InPlaceSums* sums) const = 0;
  /// Makes the examples' steps, given by their `moves`, on the weights of the part's features, and on the bias, where
  /// there is one.
  virtual void part_steps(const LinearRows& rows, const FeaturePart& part, const LinearStep& step,
                          const LinearWeights& weights, View moves) const = 0;

  /// margins[i] = w · x_{first + i} + b. \param margins [last − first]
  virtual void margins(const SparseRows& rows, Index first, Index last, const LinearWeights& weights,
                       MutableView margins) const = 0;
  /// margins[i · K + k] = w_k · x_{first + i} + b_k. \param margins [(last − first) · K]
  virtual void margins(const SparseRows& rows, Index first, Index last, const SoftmaxWeights& weights,
                       MutableView margins) const = 0;

  /// Makes a FactorStep for each rating, in order; rows of the entries are users, columns are items. The loss is Σ e² /
  /// 2. Consecutive ratings of one row must wait for each other: in an order that mixes rows they are twice as fast.
  virtual InPlaceSums factorize(std::span<const SparseEntry> ratings, const FactorStep& step, const FactorRows& users,
                                const FactorRows& items) const = 0;

  /// A step of skip-gram on one window: every word of the context predicts all outputs, which the whole window shares.
  /// All dot products come before all updates: with E[a][o] = rate · (target_o − σ(x_a · y_o)),
  ///   x_a ← x_a + Σ_o E[a][o] y_o,   y_o ← y_o + Σ_a E[a][o] x_a    (both from old values)
  ///   Mikolov et al., NIPS 2013; sharing as in Ji et al., 2016. A word may occur in the context more than once: its
  ///   updates add up.
  /// \param context rows of `inputs`
  /// \param want_loss add −ln σ(±x·y) over all pairs to the sums, each pair as one example; else sums do not change
  virtual void skip_gram(std::span<const std::int32_t> context, const OutputWords& outputs, float rate,
                         const RowMatrix& inputs, const RowMatrix& output_rows, bool want_loss,
                         InPlaceSums& sums) const = 0;
  /// A step of the continuous bag of words on one window: h = mean of the context's rows; for each output in turn e =
  /// rate · (target − σ(h · y_o)), δ ← δ + e y_o, y_o ← y_o + e h; at the end each x_a ← x_a + δ (as word2vec does; not
  /// divided by the size of the context). With want_loss, each output is added to the sums as one example.
  virtual void cbow(std::span<const std::int32_t> context, const OutputWords& outputs, float rate,
                    const RowMatrix& inputs, const RowMatrix& output_rows, bool want_loss, InPlaceSums& sums) const = 0;

  /// Makes a GloveStep for each entry, in order; the loss is J.
  virtual InPlaceSums glove(std::span<const SparseEntry> entries, const GloveStep& step, const GloveRows& words,
                            const GloveRows& contexts) const = 0;
};

/// own ← shared, which other threads may be changing.
void read_shared(const float* shared, float* own, Index n);
/// shared ← shared + (after − before); exactly `after` where no thread has changed it since it was read as `before`.
void add_to_shared(const float* before, const float* after, float* shared, Index n);

/// The kernels of the best instruction set that this CPU has.
std::unique_ptr<InPlaceKernels> make_in_place_kernels();

}  // namespace unisono::kernels
