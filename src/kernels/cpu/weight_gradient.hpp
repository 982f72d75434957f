#pragma once

#include "cpu/convolution.hpp"
#include "cpu/loops.hpp"

namespace unisono::kernels::cpu {

/// The gradient of a convolution's weights, computed in parts. For each tap, dW (O × I) = Σ dy (O × lanes) x (I ×
/// lanes)ᵀ over all positions that it reaches. For most output channels, dy is transposed, some positions at a time,
/// and the sum over lanes and positions is a matrix product with M = O. The last few channels, which would leave most
/// of a register empty, are summed along the lanes instead (Loops::dots).
///
/// The sum of a part holds, for each group, first the P channels that are computed by products, as [taps][I][P], then
/// the others, as [O − P][taps][I]. While dy is in the cache, it is also masked by ReLU's derivative and summed for the
/// bias.
class WeightGradient {
 public:
  static constexpr Index kChannelsAtOnce = 64;  ///< of products: four registers

  /// \param along_lanes the loops for vectors of lanes \param y empty where there is nothing to mask
  WeightGradient(const Convolution& convolution, const Loops& loops, const Loops& along_lanes, View x, View y,
                 MutableView dy);

  Index rows() const { return convolution_.lanes.blocks * convolution_.y.out; }  ///< of the output, in all blocks
  Index products() const { return products_; }  ///< P: the first channels of a group, which are computed by products
  Index scratch_size() const;                   ///< floats that add_products needs

  /// Partial sums over rows of the output.
  struct Sums {
    float* dw;
    float* db;  ///< [O][16]: lanes modulo 16 are sums of their own; null where there is no bias
  };

  /// sums += what rows contribute to channels ⊆ [0, products()) of each group. \pre at most kChannelsAtOnce
  void add_products(Range rows, Range channels, float* scratch, const Sums& sums) const;
  /// sums += what rows contribute to the other channels.
  void add_along_lanes(Range rows, const Sums& sums) const;

  /// dw [O][taps][I] = sum
  void write(const float* sum, float* dw) const;

 private:
  /// Neighbouring positions of a row of the output that the same elements of a row of the kernel reach.
  struct Segment {
    Range positions, elements;
  };
  /// Some positions of a row of the output.
  struct Piece {
    Index block, oy, group;
    Range positions;
  };

  void find_segments();
  Index group_size() const { return convolution_.out * group_stride(); }
  Index group_stride() const { return convolution_.taps() * convolution_.in; }  ///< weights of a channel
  Index position_floats() const;                                                ///< of a position of dy, transposed
  Index positions_at_once() const;
  const float* x_at(const Piece& piece, Index ky, Index ox, Index kx) const;
  Index dy_at(const Piece& piece, Index ox, Index channel) const;
  void mask_and_sum(const Piece& piece, Range channels, float* db) const;
  void transpose(const Piece& piece, Range channels, float* transposed) const;
  void add_piece(const Piece& piece, Range channels, const float* transposed, Pairs& pairs, float* sum) const;
  Ahead next_of(const Piece& piece, Range channels) const;
  void add_rows_along_lanes(Range rows, Index group, Pairs& pairs, float* sum) const;

  const Convolution& convolution_;
  const Loops& loops_;
  const Loops& along_lanes_;
  View x_, y_;
  MutableView dy_;
  Index products_;
  std::vector<Segment> segments_;
};

}  // namespace unisono::kernels::cpu
