#pragma once

#include <cstddef>
#include <cstdint>

#include "unisono/kernels/specs.hpp"

// The inner loops of layers other than matrix products; loops.hpp says what all loops have in common.

namespace unisono::kernels::cpu {

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
  /// y[i] = mean over t of x[taps[t] + i].
  void (*mean)(const float* x, const Count* taps, Count count, Count n, float* y);
  /// y[i] = mean over p < pixels of x[p · stride + i].
  void (*mean_over_pixels)(const float* x, Count pixels, Count stride, Count n, float* y);
};

/// The coefficients of batch normalisation for each channel of a tile: forward slope · (x − mean) + shift; backward
/// slope · dy +
/// tilt · (x − mean) + shift.
struct ChannelTerms {
  float mean[kTileChannels], slope[kTileChannels], tilt[kTileChannels], shift[kTileChannels];
};

struct BatchNormLoops {
  /// sum[c] = Σ x, squares[c] = Σ x² over the tile's pixels and used lanes.
  void (*sums)(const Tile& tile, const float* x, double* sum, double* squares);
  /// \param residual may be null
  void (*forward)(const Tile& tile, const ChannelTerms& terms, const float* x, const float* residual, bool relu,
                  float* y);
  /// dy ← y > 0 ? dy : 0 where y is not null; sum[c] = Σ dy, products[c] = Σ dy (x − mean[c]).
  void (*backward_sums)(const Tile& tile, const float* x, const float* mean, const float* y, float* dy, double* sum,
                        double* products);
  /// dx is zero in lanes that are not used.
  void (*backward)(const Tile& tile, const ChannelTerms& terms, const float* x, const float* dy, float* dx);
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

/// Tiles of an image's pixels that follow one another in a row, a tile of the output apart: the first begins at pixel
/// x. What lies outside of the image's width is zero, or is not written.
struct TileRow {
  Count x = 0, width = 0, tiles = 0;
  Count channels = 0;  ///< a multiple of 16
};

/// Winograd's F(m × m, 3 × 3), see winograd.cpp. The (m + 2)² transformed values of channel c of tile t are those at
/// planes + t · channels + c, `plane` floats apart. Rows of pixels are null where they lie outside of the image.
struct WinogradLoops {
  Count tile;  ///< m
  /// planes = Bᵀ d B of tiles of (m + 2) × (m + 2) pixels d of the input. \param rows [m + 2]
  void (*input)(const float* const* rows, const TileRow& tiles, float* planes, Count plane);
  /// m × m pixels of the output = f(Aᵀ p A + bias), p from planes. \param rows [m]
  void (*output)(const float* planes, Count plane, const TileRow& tiles, const float* bias, bool relu,
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
  /// dx = dy · activation'; dx may be dy. \param v x for GELU and SiLU, else y; none reads neither
  void (*backward)(Activation activation, float a, const float* v, const float* dy, float* dx, Count n);
};

/// Dropout of one block, see dropout.cpp for the formula.
struct DropoutBlock {
  std::uint64_t key = 0;
  std::uint32_t epoch = 0;
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

}  // namespace unisono::kernels::cpu
