#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/in_place_loops.hpp"
#include "unisono/kernels/specs.hpp"
#include "unisono/kernels/update_kernels.hpp"

// The inner loops whose code depends on the instruction set. Each is compiled once per set (loops_isa/*.cpp), and a
// backend uses the table of the best set that its CPU has. They take only pointers and counts: no inline function of
// another header may be instantiated in these files (see cmake/UnisonoInstructionSets.cmake). All run on the calling
// thread.
//
// Width: lanes of a block, a multiple of 16; or 8, where the vectors of a set are not longer (narrow_loops_for).
// Pointers to activations are aligned to 64 bytes.
namespace unisono::kernels::cpu {

// Layers other than matrix products.

using Count = std::ptrdiff_t;

inline constexpr Count kMaximumLanes = 64;  ///< of a block
inline constexpr Count kTileChannels = 16;  ///< of a tile

/// Some channels of some consecutive pixels of one block: channel c of pixel p has `width` lanes from
/// p · pixel_stride + c · width on, of which `used` hold examples. With the channels innermost, the width is 1, and all
/// examples' pixels are consecutive.
struct Tile {
  Count pixels = 0, channels = 0;  ///< channels ≤ kTileChannels
  Count width = 0, used = 0;
  Count pixel_stride = 0;
};

struct PoolLoops {
  /// y[i] = the largest of x[taps[t] + i] over t < count, for i < n. NaN is larger than any number.
  void (*maximum)(const float* x, const Count* taps, Count count, Count n, float* y);
  /// dx[taps[t] + i] = dy[i] where t is the first tap with x = y, and 0 at the others; with `add` it is added.
  void (*maximum_backward)(const float* x, const float* y, const float* dy, const Count* taps, Count count, Count n,
                           bool add, float* dx);
  /// y[i] = f(the largest of x[taps[t] + i]) of four taps, f a ReLU where `relu`; places[i]: the first of the taps that
  /// have it, or 4 where the ReLU gives 0
  void (*maximum_of_four)(const float* x, const Count* taps, bool relu, Count n, float* y, std::uint8_t* places);
  /// dx[taps[t] + i] = dy[i] where places[i] = first + t, else 0, for t < 2
  void (*spread_to_two)(const std::uint8_t* places, int first, const float* dy, const Count* taps, Count n, float* dx);
  /// y[i] = mean over t of x[taps[t] + i].
  void (*mean)(const float* x, const Count* taps, Count count, Count n, float* y);
  /// y[i] = mean over p < pixels of x[p · stride + i].
  void (*mean_over_pixels)(const float* x, Count pixels, Count stride, Count n, float* y);
};

/// The coefficients of batch normalisation for each channel of a tile: forward slope · (x − mean) + beta, backward
/// slope · dy + tilt · (x − mean) + shift.
struct ChannelTerms {
  float mean[kTileChannels], slope[kTileChannels], beta[kTileChannels], tilt[kTileChannels], shift[kTileChannels];
};

struct BatchNormLoops {
  /// sum[c] = Σ x, squares[c] = Σ x² over the tile's pixels and used lanes.
  void (*sums)(const Tile& tile, const float* x, double* sum, double* squares);
  /// [with a residual][with ReLU]
  void (*forward[2][2])(const Tile& tile, const ChannelTerms& terms, const float* x, const float* residual, float* y);
  /// [ReluMask] sum[c] = Σ d, products[c] = Σ d (x − mean[c]), where d is dy, or zero where the ReLU let nothing
  /// through. With ReluMask::from_output d replaces dy; else y is not read.
  void (*backward_sums[3])(const Tile& tile, const ChannelTerms& terms, const float* x, const float* y, float* dy,
                           double* sum, double* products);
  /// [whether dy is still to be masked: ReluMask::from_input] dx is zero in lanes that are not used.
  void (*backward[2])(const Tile& tile, const ChannelTerms& terms, const float* x, const float* dy, float* dx);
};

/// Elements × examples: element e has `lanes` lanes (a block's width) from e · stride on, of which `used` hold
/// examples.
struct Columns {
  Count elements = 0, lanes = 0, stride = 0, used = 0;
};

struct LayerNormLoops {
  /// Per lane: the mean over the elements, and 1 / √(variance + epsilon).
  void (*moments)(const Columns& columns, const float* x, float epsilon, float* mean, float* inverse);
  /// y = gamma[e] (x − mean) inverse + beta[e]
  void (*forward)(const Columns& columns, const float* x, const float* mean, const float* inverse, const float* gamma,
                  const float* beta, float* y);
  /// dx = inverse (d − mean of d − x̂ · mean of d x̂) with d = gamma dy and means over the elements.
  void (*backward)(const Columns& columns, const float* x, const float* mean, const float* inverse, const float* gamma,
                   const float* dy, float* dx);
  /// dgamma[e] += Σ dy x̂, dbeta[e] += Σ dy over the used lanes.
  void (*parameters)(const Columns& columns, const float* x, const float* mean, const float* inverse, const float* dy,
                     double* dgamma, double* dbeta);
};

/// Pixels with the channels innermost: rows of `channels` values.
struct PixelRows {
  Count count = 0, channels = 0;
  float epsilon = 0;
};

struct PixelsLayerNormLoops {
  /// y = gamma x̂ + beta of each row
  void (*forward)(const PixelRows& rows, const float* x, const float* gamma, const float* beta, float* y);
  /// dx = inverse (d − mean of d − x̂ · mean of d x̂) with d = gamma dy; dgamma += Σ dy x̂, dbeta += Σ dy over the
  /// rows. dx, and dgamma with dbeta, may be null.
  void (*backward)(const PixelRows& rows, const float* x, const float* gamma, const float* dy, float* dx, float* dgamma,
                   float* dbeta);
};

/// Rows of n floats, and one row of factors for all of them.
struct ChannelGateLoops {
  /// y[row][i] = factors[i] x[row][i]
  void (*scale)(Count rows, Count n, const float* factors, const float* x, float* y);
  /// sums[i] = Σ over rows of x[row][i] y[row][i]
  void (*sums_of_products)(Count rows, Count n, const float* x, const float* y, float* sums);
};

struct RmsNormLoops {
  /// Per lane: 1 / √(mean of x² + epsilon).
  void (*inverse)(const Columns& columns, const float* x, float epsilon, float* inverse);
  /// y = gamma[e] x inverse
  void (*forward)(const Columns& columns, const float* x, const float* inverse, const float* gamma, float* y);
  /// dx = inverse (d − x̂ · mean of d x̂) with d = gamma dy and x̂ = x inverse.
  void (*backward)(const Columns& columns, const float* x, const float* inverse, const float* gamma, const float* dy,
                   float* dx);
  /// dgamma[e] += Σ dy x̂ over the used lanes.
  void (*parameters)(const Columns& columns, const float* x, const float* inverse, const float* dy, double* dgamma);
};

/// y = silu(x) · v, element by element.
struct GateLoops {
  void (*forward)(const float* x, const float* v, float* y, Count n);
  void (*backward)(const float* x, const float* v, const float* dy, float* dx, float* dv, Count n);
};

/// Scores q·k of some queries and keys: [keys][kMaximumLanes], each key with `queries` lanes, a multiple of 16. The
/// first `free` keys are seen by all queries; of the others, query i sees key free + j where j ≤ i.
struct ScoreShape {
  Count queries = 0, keys = 0, free = 0;
  float factor = 1;  ///< log₂ e / √D
};

/// The softmax of each query over the keys so far.
struct RunningSoftmax {
  float largest[kMaximumLanes];     ///< of score · factor; −∞ at first
  float sum[kMaximumLanes];         ///< Σ 2^(score · factor − largest); 0 at first
  float correction[kMaximumLanes];  ///< 2^(largest before − largest now): of what was summed before
};

/// The same of a backward pass, the other way round: [queries][kMaximumLanes], each query with `keys` lanes, a multiple
/// of 16. Where `diagonal`, query i sees key j where j ≤ i, and of each 16 queries only the lanes exist that one of
/// them sees.
struct ScoreGradientShape {
  Count queries = 0, keys = 0;
  bool diagonal = false;
  float factor = 1;  ///< log₂ e / √D
  float scale = 1;   ///< 1 / √D
};

/// What all elements of the dropout mask of one sequence's attention share; see elementwise.cpp.
struct MaskKey {
  std::uint64_t key = 0;
  std::uint64_t first = 0;  ///< the number of the first element
  std::uint32_t epoch = 0;
  std::uint32_t threshold = 0;
  std::uint32_t example_low = 0, example_high = 0;
  float scale = 1;  ///< of what is kept
};

struct AttentionLoops {
  /// to[i · to_stride + j] = from[i · from_stride + j] for i < rows, j < lanes.
  void (*copy)(Count rows, Count lanes, const float* from, Count from_stride, float* to, Count to_stride);
  /// x[i], x[half + i] are turned by their angles, or back where sign is −1. \param x [2 · half][kMaximumLanes]
  /// \param table [half][2][kMaximumLanes]: cosines and sines
  void (*rotate)(Count half, const float* table, float sign, float* x);
  /// Scores become 2^(score · factor − largest), and 0 where they are not seen: of keys after `free`, only for as many
  /// as one of the 16 queries beside sees.
  void (*probabilities)(const ScoreShape& shape, float* scores, RunningSoftmax& running);
  /// log_sums = ln Σ exp(score / √D), inverse = 1 / sum.
  void (*finish)(Count queries, const RunningSoftmax& running, float* log_sums, float* inverse);
  /// y[i][lane] = factors[lane] · x[i][lane] for i < rows, lane < lanes. y may be x.
  void (*scale)(Count rows, Count lanes, const float* factors, const float* x, float* y);
  /// sums[lane] = Σ_i x[i][lane] · y[i][lane] for i < rows, of all kMaximumLanes lanes
  void (*dots)(Count rows, const float* x, const float* y, float* sums);
  /// Scores become probabilities p, gradients of probabilities dp become those of scores, p (dp − dot) / √D. Where
  /// there are mask factors, dp and p are those after dropout. \param log_sums, dots [queries]
  /// \param mask of the scores' shape, or null
  void (*gradients)(const ScoreGradientShape& shape, const float* log_sums, const float* dots, const float* mask,
                    float* scores, float* gradients);
  /// mask[j] = 0 or key.scale, for the elements first + j, j < count ≤ kMaximumLanes.
  void (*mask)(const MaskKey& key, std::uint64_t first, Count count, float* mask);
  /// x[i][lane] *= y[i][lane] for i < rows, lane < lanes
  void (*multiply)(Count rows, Count lanes, const float* y, float* x);
};

/// A dense layer of few examples: W [units][in], rows `ldw` floats apart; x [in][lanes] and dy [units][lanes], whose
/// first `examples` lanes count.
struct FewExamplesShape {
  Count examples = 0, units = 0, in = 0;
  Count ldw = 0, lanes = 0;
  Count ld = 0;  ///< floats from one example to the next of what is computed
  bool relu = false;
};

/// See few_examples.cpp. Sums have the same order as those of `product`.
struct FewExamplesLoops {
  static constexpr Count kMost = 4;         ///< examples
  static constexpr Count kMostWeights = 8;  ///< examples of `weights`
  /// y[e][u] = f(Σ_i W[u][i] x[i][e] + bias[u]). \param bias [units], or null
  void (*forward)(const FewExamplesShape& shape, const float* x, const float* w, const float* bias, float* y);
  /// dx[e][i] = Σ_u W[u][i] dy[u][e]
  void (*backward)(const FewExamplesShape& shape, const float* dy, const float* w, float* dx);
  /// dw[i] = Σ_e dy[e] x[e][i] of one unit. \param x [examples][ld]
  void (*weights)(const FewExamplesShape& shape, const float* dy, const float* x, float* dw);
};

/// A product of row-major matrices, y (rows × units) = f(x Wᵀ + bias), x [rows][in], W [units][in].
struct RowProduct {
  Count rows = 0, units = 0, in = 0;
  Count ldy = 0;  ///< floats from one row of y to the next
  bool relu = false;
};

/// Queries that see the same keys: q [queries][width], keys and values [keys][width], scores [queries][score_stride].
struct QueryShape {
  Count queries = 0, keys = 0, width = 0;
  Count score_stride = 0;
  float factor = 1;  ///< log₂ e / √D
};

/// Rows of sequences that are computed a few at a time, each row-major; see decode.cpp.
struct DecodeLoops {
  /// Units [first, last), `first` a multiple of 4 and `last`, too, unless it is the number of units. \param bias
  /// [units] or null
  void (*product)(const RowProduct& shape, Count first, Count last, const float* x, const float* w, const float* bias,
                  float* y);
  /// y (queries × width) = softmax(q kᵀ / √D) v. \param scores overwritten
  void (*attend)(const QueryShape& shape, const float* q, const float* k, const float* v, float* scores, float* y);
  /// A row of n values: y = gamma (x − mean) / √(variance + epsilon) + beta
  void (*layer_norm)(Count n, float epsilon, const float* x, const float* gamma, const float* beta, float* y);
  /// A row of n values: y = gamma x / √(mean of x² + epsilon)
  void (*rms_norm)(Count n, float epsilon, const float* x, const float* gamma, float* y);
};

/// Floats of a pixel in the loops of depthwise convolutions.
inline constexpr Count kDepthwiseLanes = 16;

/// How a plane of pixels is copied with room around and between them: pixel (r, c) is pixel (top + r · spread_height,
/// left + c · spread_width) of the padded plane, if it lies inside of that; all else is zero.
struct PaddedPlane {
  Count rows = 0, columns = 0;  ///< of the plane
  Count row = 0, column = 0;    ///< floats from one row, and from one pixel, to the next
  Count lanes = 0;              ///< floats in use of each pixel, at most kDepthwiseLanes
  Count top = 0, left = 0;
  Count spread_height = 1, spread_width = 1;
  Count width = 0;  ///< pixels of a padded row
};

/// A depthwise convolution of a padded plane.
struct DepthwiseShape {
  Count columns = 0;          ///< of the output
  Count row = 0, column = 0;  ///< floats from one row, and from one pixel, of the output to the next
  Count lanes = 0;            ///< in use
  Count width = 0;            ///< pixels of a padded row
  Count kernel_height = 1, kernel_width = 1, stride_height = 1, stride_width = 1, dilation_height = 1,
        dilation_width = 1;
  bool relu = false;
};

/// See depthwise.cpp. Weights are [KH][KW][kDepthwiseLanes].
struct DepthwiseLoops {
  /// Rows [first, last) of the padded plane, [rows][width][kDepthwiseLanes].
  void (*pad)(const PaddedPlane& plane, Count first, Count last, const float* from, float* to);
  /// Rows of the output: y = f(bias + Σ w x). \param x the padded rows that they need \param bias [kDepthwiseLanes], or
  /// null
  void (*correlate)(const DepthwiseShape& shape, Count rows, const float* x, const float* w, const float* bias,
                    float* y);
  /// dw += Σ dy x over rows of the output. \param dy [rows][columns][kDepthwiseLanes]
  void (*gradient)(const DepthwiseShape& shape, Count rows, const float* x, const float* dy, float* dw);
};

/// Tiles of an image's pixels that follow one another in a row, a tile of the output apart: the first begins at pixel
/// x. What lies outside of the image's width is zero, or is not written.
struct TileRow {
  Count x = 0, width = 0, tiles = 0;
  Count channels = 0;  ///< a multiple of 16
};

/// The products of some tiles, for each of the (m + 2)² transformed values: u [in][out] are the kernels', v [tiles][in]
/// the tiles'. A value's are `u_plane` and `v_plane` floats behind those of the value before it.
struct WinogradProducts {
  Count in, out, tiles;
  const float* u;
  Count u_plane;
  const float* v;
  Count v_plane;
  float* m;
  Count m_plane;
};

/// Winograd's F(m × m, 3 × 3), see winograd.cpp. The (m + 2)² transformed values of channel c of tile t are those at
/// planes + t · channels + c, `plane` floats apart. Rows of pixels are null where they lie outside of the image.
struct WinogradLoops {
  Count tile;  ///< m
  /// planes = Bᵀ d B of tiles of (m + 2) × (m + 2) pixels d of the input. \param rows [m + 2]
  void (*input)(const float* const* rows, const TileRow& tiles, float* planes, Count plane);
  /// The products of all values, and Aᵀ of each column of them: m × (m + 2) planes of [tiles][out]. Null where a CPU
  /// has too few registers for it: products are then computed value by value.
  void (*column_products)(const WinogradProducts& products);
  /// m × m pixels of the output = f(Aᵀ p A + bias). \param rows [m] \param planes p, or Aᵀ p if `columns`
  void (*output)(const float* planes, Count plane, bool columns, const TileRow& tiles, const float* bias, bool relu,
                 float* const* rows);
  /// planes = A d Aᵀ of tiles of m × m pixels d of the output's gradient. \param rows [m]
  void (*output_gradient)(const float* const* rows, const TileRow& tiles, float* planes, Count plane);
  /// planes = G g Gᵀ of kernels g, `count` of them at once. \param tap floats from one tap to the next
  void (*weights)(const float* w, Count tap, Count count, float* planes, Count plane);
  /// dw = Gᵀ u G, u from planes, or dw += it.
  void (*weight_gradient)(const float* planes, Count plane, Count count, bool add, float* dw, Count tap);
};

struct ActivationLoops {
  /// \param a the activation's number, see ActivationSpec
  void (*forward)(Activation activation, float a, const float* x, float* y, Count n);
  /// dx = dy · activation'; dx may be dy. \param v x where ActivationSpec::reads_input, else y; none reads neither
  void (*backward)(Activation activation, float a, const float* v, const float* dy, float* dx, Count n);
};

/// Dropout of one block, see elementwise.cpp for the formula.
struct DropoutBlock {
  std::uint64_t key = 0;
  std::uint32_t epoch = 0;
  Count first = 0;              ///< the number of the first element
  std::uint32_t threshold = 0;  ///< of the 24 random bits of an element: below it the element is zeroed
  float scale = 1;              ///< of those that are kept
  Count channels = 0, pixels = 0, width = 0;
  const std::uint32_t* example_low = nullptr;  ///< [width] halves of the examples' indices
  const std::uint32_t* example_high = nullptr;
};

struct DropoutLoops {
  /// Pixels [first, last) of all channels. y may be x.
  void (*apply)(const DropoutBlock& block, Count first, Count last, const float* x, float* y);
};

/// Intermediate values of the softmax of columns of logits, for each lane (example).
struct SoftmaxSums {
  float largest[kMaximumLanes];
  float label[kMaximumLanes];          ///< the label's logit minus the largest
  double exponentials[kMaximumLanes];  ///< Σ exp(z − largest)
  double logits[kMaximumLanes];        ///< Σ (z − largest)
  std::int32_t
      before[kMaximumLanes];  ///< how many logits are larger than the label's, or as large and of a lower class
};

/// The softmax of some classes of each lane, with those of other classes to be combined.
struct PartialSoftmax {
  float largest[kMaximumLanes];
  double exponentials[kMaximumLanes];  ///< Σ exp(z − largest)
  double logits[kMaximumLanes];        ///< Σ z
};

/// The softmax of all classes of each lane, and what its gradient needs.
struct HeadLanes {
  float largest[kMaximumLanes];
  float share[kMaximumLanes];          ///< scale / Σ exp(z − largest); 0 in lanes without a label
  float spread[kMaximumLanes];         ///< of each class's gradient: scale · smoothing / V; 0 in lanes without a label
  float label[kMaximumLanes];          ///< the label's logit
  std::int32_t labels[kMaximumLanes];  ///< −1: none
};

struct HeadLoops {
  void (*sums)(const Columns& columns, const float* z, PartialSoftmax& sums);
  /// Adds to before[lane] how many of the classes first, first + 1, … come before the label, as in SoftmaxSums.
  void (*count)(const Columns& columns, Count first, const float* z, const HeadLanes& lanes, std::int32_t* before);
  /// z becomes its gradient, but for the label's peak; the classes are counted as above.
  void (*gradient)(const Columns& columns, Count first, const HeadLanes& lanes, float* z, std::int32_t* before);
};

/// Intermediate values of the multiclass hinge of columns of scores, for each lane (example).
struct HingeSums {
  float margin[kMaximumLanes];         ///< 1 + the largest of the other scores − the label's: the loss, where above 0
  std::int32_t other[kMaximumLanes];   ///< the class of that score, the first of equals; −1 of a single class
  std::int32_t before[kMaximumLanes];  ///< as in SoftmaxSums
};

/// Σ over used lanes of outputs y against targets t; only the loss is weighted.
struct ErrorSums {
  double loss = 0, squared = 0, absolute = 0, target = 0, target_squared = 0;
};

/// The parameters of a loss of errors; see ErrorLoss.
struct ErrorTerms {
  ErrorLoss loss;
  float delta;
  float scale;           ///< of gradients; multiplies e for e², the slope for the other losses
  const float* weights;  ///< [used lanes] of losses; null: all are 1
};

struct LossLoops {
  /// \param labels [lanes]. \param exponentials of z's shape: exp(z − largest); may be null
  void (*softmax_sums)(const Columns& columns, const float* z, const std::int32_t* labels, SoftmaxSums& sums,
                       float* exponentials);
  /// d = scale (softmax − target), from the exponentials that d holds; zero in lanes that are not used.
  void (*softmax_gradient)(const Columns& columns, const std::int32_t* labels, const SoftmaxSums& sums, float smoothing,
                           float scale, float* d);
  /// \param labels [lanes]
  void (*hinge_sums)(const Columns& columns, const float* z, const std::int32_t* labels, HingeSums& sums);
  /// d = scale (1[other] − 1[label]) where the margin is above 0, else 0; zero in lanes that are not used.
  void (*hinge_gradient)(const Columns& columns, const std::int32_t* labels, const HingeSums& sums, float scale,
                         float* d);
  /// Σ over used lanes of w (log(1 + eᶻ) − t z), t ← t (1 − smoothing) + smoothing / 2; d = scale (σ(z) − t), or null.
  /// \param targets [elements][lanes], unlike z and d without gaps \param weights w, [used lanes]; null: all are 1
  double (*sigmoid)(const Columns& columns, const float* z, const float* targets, const float* weights, float smoothing,
                    float scale, float* d);
  /// d = scale · e for the squared error e², with e = y − t; scale · slope(e) for the others; or null.
  ErrorSums (*errors)(const Columns& columns, const ErrorTerms& terms, const float* y, const float* targets, float* d);
  /// d ← w d. \param weights w, [lanes]
  void (*weigh)(const Columns& columns, const float* weights, float* d);
};

// Vector algebra and update rules. Vectors need no alignment. They must not overlap, except where `y may be x` is said.

struct AlgebraLoops {
  /// sum[0] + sum[1] = Σ x², with a relative error of at most 2⁻⁵¹ before the two are added
  void (*squared_norm)(const float* x, Count n, double* sum);
  /// x may be y.
  double (*dot)(const float* x, const float* y, Count n);
  /// y = a x + b y; with b = 0 y is not read. y may be x.
  void (*axpby)(float a, const float* x, float b, float* y, Count n);
};

/// The scalars of a rule's step on one range of θ: `decay` is 0 where the range has none, and g stands for
/// gradient_scale · g.
template <typename Step>
struct RangeStep : Step {
  float gradient_scale = 1;
};

/// See updates.cpp for the formulas.
struct UpdateLoops {
  void (*sgd)(const RangeStep<SgdStep>& step, const float* g, float* theta, Count n);
  void (*momentum)(const RangeStep<SgdStep>& step, const float* g, float* theta, float* velocity, Count n);
  void (*adagrad)(const RangeStep<AdagradStep>& step, const float* g, float* theta, float* accumulator, Count n);
  void (*rmsprop)(const RangeStep<RmspropStep>& step, const float* g, float* theta, float* mean_square, Count n);
  void (*adam)(const RangeStep<AdamStep>& step, const float* g, float* theta, float* first, float* second, Count n);
  /// sum[0] + sum[1] = Σ direction², as squared_norm
  void (*lamb_moments)(const RangeStep<AdamStep>& step, const float* g, const float* theta, float* first, float* second,
                       Count n, double* sum);
  /// Computes the directions again whose squares lamb_moments has summed.
  void (*lamb_directions)(const RangeStep<AdamStep>& step, const float* theta, const float* first, const float* second,
                          float* directions, Count n);
  void (*lamb_apply)(const RangeStep<AdamStep>& step, float ratio, float* theta, const float* first,
                     const float* second, Count n);
};

using Count = std::ptrdiff_t;

/// The inner loops of encoders. Bit i of a bitmap is bit i mod 64 of its word i div 64; bits behind the last value are
/// 0.
struct EncoderLoops {
  /// halves[i] = v[i] rounded to bfloat16; v[i] −= that
  void (*encode_bf16)(float* v, Count n, std::uint16_t* halves);
  /// sum[i] += halves[i]
  void (*add_bf16)(const std::uint16_t* halves, Count n, float* sum);

  /// max |v|
  float (*largest)(const float* v, Count n);
  /// codes[i] = ⌊v[i] · inverse + u_i⌋, at most ±127; v[i] −= codes[i] · scale. u_i is the (i mod 8)-th half word of
  /// philox(key, {counter + i div 8, position, …}), over 2¹⁶. \param n at most 256
  void (*encode_eight_bit)(const struct EightBitBlock& block, float* v, Count n, std::int8_t* codes);
  /// sum[i] += codes[i] · scale
  void (*add_eight_bit)(float scale, const std::int8_t* codes, Count n, float* sum);

  /// The signs, and means[0] of the values that are not negative, means[1] of the others; v[i] −= its sign's mean.
  void (*encode_one_bit)(float* v, Count n, std::uint64_t* negative, float* means);
  /// sum[i] += the mean of value i's sign
  void (*add_one_bit)(const float* means, const std::uint64_t* negative, Count n, float* sum);

  /// Marks the values with |v| ≥ magnitude. \return how many these are
  Count (*mark)(float magnitude, const float* v, Count n, std::uint64_t* present);
  /// Likewise, and marks the negative ones of them; v[i] −= ±τ there.
  Count (*mark_signed)(float tau, float* v, Count n, std::uint64_t* present, std::uint64_t* negative);
  /// sum[i] += ±τ where `present`
  void (*add_signed)(float tau, const std::uint64_t* present, const std::uint64_t* negative, Count n, float* sum);
};

/// A block of at most 256 values, and the counter of its random numbers.
struct EightBitBlock {
  float scale = 0, inverse = 0;
  std::uint64_t key = 0;
  std::uint32_t counter[4] = {};  ///< the first word is advanced by one for each eight values
};

/// Rows of a table: row i begins at values + i · stride, and `width` of its floats are in use, a multiple of 16.
struct FactorTable {
  const float* values = nullptr;
  Count stride = 0, width = 0;
  Count rank = 0;  ///< K ≤ width; the others are zero
};

/// One row's problem; see LeastSquaresTerms.
struct NormalEquations {
  const std::uint32_t* rows = nullptr;  ///< [count]
  const float* targets = nullptr;       ///< [count]
  const float* weights = nullptr;       ///< [count] or null
  Count count = 0;
  const float* gram = nullptr;  ///< null: 0
  float l2 = 0;
  bool bias = false;
};

/// The inner loops of alternating least squares.
struct LeastSquaresLoops {
  /// \param scratch [least_squares_scratch(width)], aligned \param factors [width], aligned \param bias may be null
  void (*solve)(const FactorTable& table, const NormalEquations& equations, float* scratch, float* factors,
                float* bias);
  /// gram (columns of width + 16) += Σ q qᵀ over rows [first, last)
  void (*add_gram)(const FactorTable& table, Count first, Count last, float* gram);
  /// products[i] = p · row rows[i]
  void (*products)(const FactorTable& table, const std::uint32_t* rows, Count count, const float* p, float* products);
};

/// Rows that are gathered at a time: as many as lie in 24 KiB, but at least 16.
static constexpr Count least_squares_block(Count width) {
  const Count most = 6144 / width / 16 * 16;
  return most < 16 ? 16 : (most > 128 ? 128 : most);
}
/// Matrix, gathered rows and their multiples, right-hand sides [block][2], and four vectors.
static constexpr Count least_squares_scratch(Count width) {
  const Count stride = width + 16, block = least_squares_block(width);
  return width * stride + 2 * block * stride + 2 * block + 5 * stride;
}

inline constexpr Count kTileColumns = 6;  ///< of C, of the highest tile of a product: parts of C should be so wide

/// C (m × n) = f([C +] Σ_r A_r (m × k) B_r (k × n) + bias), all column-major: C[i + j · ldc], and so on. B_r is given
/// as its transpose (n × k) where `transposed`. The bias, where there is one, has one value for each column, or for
/// each row where `bias_of_rows`; f is max(·, 0) where `relu`. Where `streams`, C is written past the caches: m is a
/// multiple of the vectors' length, the columns begin at cache lines, and the caller makes a fence at the end.
struct ProductShape {
  Count m = 0, n = 0, k = 0;
  Count lda = 0, ldb = 0, ldc = 0;
  bool transposed = false;
  bool accumulate = false;
  bool relu = false;
  bool bias_of_rows = false;
  bool streams = false;
};

/// How far apart the elements of a matrix lie, in floats: from one row to the next, and from one column to the next.
struct Strides {
  Count row, column;
};

/// C (m × n) = f([C +] A (m × k) B (k × n) + bias), C column-major; bias and f as above, one bias for each column.
struct MatrixShape {
  Count m = 0, n = 0, k = 0;
  Strides a{}, b{};
  Count ldc = 0;
  bool accumulate = false;
  bool relu = false;
};

/// What to prefetch for later products: each step of a product prefetches the cache lines at `a` and `b`, and advances
/// these by `a_step` and `b_step` floats. A step is Loops::multiply_adds_per_step multiply-adds.
struct Ahead {
  const float* a = nullptr;
  Count a_step = 0;
  const float* b = nullptr;
  Count b_step = 0;
};

/// C (m × n) += Σ_r A_r B_rᵀ over the lanes: C[i · ldc + j] += Σ_r Σ_lane A_r[i · width + lane] B_r[j · width + lane].
struct DotShape {
  Count m = 0, n = 0;
  Count width = 0;
  Count ldc = 0;
};

struct Loops {
  const char* name = "";  ///< "AVX-512"

  // products.cpp
  // ------------
  /// 2·m·n·k·count flops. \param a, b [count] matrices \param bias [n] or [m], or null \param ahead may be null
  void (*product)(const ProductShape& shape, const float* const* a, const float* const* b, Count count,
                  const float* bias, float* c, Ahead* ahead);
  double multiply_adds_per_step;
  /// A product of large matrices, which are not cut into parts that fit into caches. Null where `product` on such parts
  /// is faster. No element depends on how many other rows and columns there are. \param bias [n], or null
  void (*matrix_product)(const MatrixShape& shape, const float* a, const float* b, const float* bias,
                         float* c) = nullptr;
  /// Fused multiply-adds in registers; returns how many flops these were. \param sink keeps them from being optimised
  /// away
  double (*multiply_add)(Count iterations, float* sink);
  /// a = b + 0.5 c
  void (*triad)(Count count, float* a, const float* b, const float* c);
  /// Reads `count` floats, a multiple of 64. \param sum to which their sum is added, so that it is not optimised away
  void (*load_all)(Count count, const float* from, float* sum);
  /// Writes `count` floats, a multiple of 64, to an aligned place.
  void (*store_all)(Count count, float value, bool past_caches, float* to);

  // algebra.cpp
  // -----------
  /// 2·m·n·width·count flops. For small m and n; for larger ones, transposing A and calling `product` is faster.
  void (*dots)(const DotShape& shape, const float* const* a, const float* const* b, Count count, float* c);
  /// out[j · out_stride + i] = in[i · in_stride + j] for i < rows, j < columns.
  void (*transpose)(Count rows, Count columns, const float* in, Count in_stride, float* out, Count out_stride);

  // elementwise.cpp
  // ---------------
  /// For `channels` rows of `width` lanes: dy ← dy ⊙ (y > 0) where y is not null; then, where `sums` [channels][16] is
  /// not null, lane l of dy is added to sums[channel][l mod 16].
  void (*mask_and_sum)(Count channels, Count width, const float* y, float* dy, float* sums);
  /// The same with the channels innermost: of rows [rows][channels], sums[channel] += Σ dy.
  void (*mask_and_sum_rows)(Count rows, Count channels, const float* y, float* dy, float* sums);

  // Files of these names
  // --------------------
  FewExamplesLoops few_examples;
  PoolLoops pool;
  BatchNormLoops batch_norm;           ///< of tiles of lanes
  BatchNormLoops channels_batch_norm;  ///< of tiles with the channels innermost
  WinogradLoops winograd2, winograd4;
  DepthwiseLoops depthwise;
  LayerNormLoops layer_norm;
  PixelsLayerNormLoops pixels_layer_norm;
  ChannelGateLoops channel_gate;
  RmsNormLoops rms_norm;
  ActivationLoops activation;
  GateLoops gate;
  AttentionLoops attention;
  DecodeLoops decode;
  HeadLoops head;
  DropoutLoops dropout;
  LossLoops loss;
  AlgebraLoops algebra;
  UpdateLoops updates;
  EncoderLoops encoders;
  InPlaceLoops in_place;
  LeastSquaresLoops least_squares;
  LinearLoops linear;
};

namespace portable {
Loops make_loops();
}
#ifdef UNISONO_X86
namespace avx2 {
Loops make_loops();
}
namespace avx512 {
Loops make_loops();
}
#endif

}  // namespace unisono::kernels::cpu
