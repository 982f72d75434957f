#include "cpu/weight_gradient.hpp"

#include <algorithm>

namespace unisono::kernels::cpu {
namespace {

constexpr Index kTransposedFloats = Index{1} << 13;  ///< 32 KiB of dy, transposed at a time
constexpr Index kRowsAlongLanes = 4;                 ///< summed before a tile's lanes are added up

constexpr Index round_up(Index n) { return (n + Lanes::kVector - 1) / Lanes::kVector * Lanes::kVector; }

/// The cost of computing the gradient of `channels` channels by products, in multiply-adds of registers of 16 floats,
/// for 16 lanes and one row of taps. Products fill whole registers, need some 8 sums to hide the latency, and transpose
/// 16 × 16 values with 64 shuffles, which are twice as slow as multiply-adds.
double product_cost(const Convolution& convolution, Index columns, Index channels) {
  const Index registers = round_up(channels) / Lanes::kVector;
  if (registers == 0) return 0;
  const Index rows = convolution.y.kernel * (convolution.runs ? 1 : convolution.x.kernel);
  return static_cast<double>(Lanes::kVector * std::max<Index>(registers * columns, 8)) +
         2.0 * 64 * static_cast<double>(registers) / static_cast<double>(rows);
}

/// The cost of sums along the lanes: they waste no part of a register, but reach only some 60 % of a product's speed.
double lanes_cost(Index columns, Index channels) { return static_cast<double>(channels * columns) / 0.6; }

/// How many channels of a group are best computed as products: all, whole registers of them, or none.
Index channels_of_products(const Convolution& convolution) {
  const Index columns = (convolution.runs ? convolution.x.kernel : 1) * convolution.in;
  const auto cost = [&](Index products) {
    return product_cost(convolution, columns, products) + lanes_cost(columns, convolution.out - products);
  };
  const Index whole = convolution.out / Lanes::kVector * Lanes::kVector;
  return std::min({convolution.out, whole, Index{0}}, [&](Index a, Index b) { return cost(a) < cost(b); });
}

}  // namespace

WeightGradient::WeightGradient(const Convolution& convolution, const Loops& loops, const Loops& along_lanes, View x,
                               View y, MutableView dy)
    : convolution_(convolution),
      loops_(loops),
      along_lanes_(along_lanes),
      x_(x),
      y_(y),
      dy_(dy),
      products_(channels_of_products(convolution)) {
  find_segments();
}

void WeightGradient::find_segments() {
  const Axis& axis = convolution_.x;
  const auto extend = [this](Index position, Range elements) {
    if (elements.size() == 0) return;
    if (!segments_.empty() && segments_.back().elements == elements && segments_.back().positions.end == position) {
      ++segments_.back().positions.end;
    } else {
      segments_.push_back({{position, position + 1}, elements});
    }
  };
  const Index kinds = convolution_.runs ? 1 : axis.kernel;  // all elements together, or each for itself
  for (Index kind = 0; kind < kinds; ++kind) {
    for (Index position = 0; position < axis.out; ++position) {
      const Range elements = axis.elements(position);
      extend(position,
             convolution_.runs ? elements : Range{std::max(elements.first, kind), std::min(elements.end, kind + 1)});
    }
  }
}

Index WeightGradient::position_floats() const {
  return convolution_.lanes.width * round_up(std::min(products_, kChannelsAtOnce));
}

/// How many positions to transpose at a time. Equal for all slices of the channels, so that sums are grouped alike
/// however many slices there are.
Index WeightGradient::positions_at_once() const {
  return std::max<Index>(1, kTransposedFloats / std::max<Index>(1, position_floats()));
}

Index WeightGradient::scratch_size() const { return positions_at_once() * position_floats(); }

const float* WeightGradient::x_at(const Piece& piece, Index ky, Index ox, Index kx) const {
  const Index iy = convolution_.y.input(piece.oy, ky), ix = convolution_.x.input(ox, kx);
  return x_.data() + convolution_.input_at(piece.block, iy, ix) +
         piece.group * convolution_.in * convolution_.lanes.width;
}

Index WeightGradient::dy_at(const Piece& piece, Index ox, Index channel) const {
  return convolution_.output_at(piece.block, piece.oy, ox) +
         (piece.group * convolution_.out + channel) * convolution_.lanes.width;
}

void WeightGradient::mask_and_sum(const Piece& piece, Range channels, float* db) const {
  if (y_.empty() && db == nullptr) return;
  float* const sums = db == nullptr ? nullptr : db + (piece.group * convolution_.out + channels.first) * Lanes::kVector;
  for (Index ox = piece.positions.first; ox < piece.positions.end; ++ox) {
    const Index at = dy_at(piece, ox, channels.first);
    along_lanes_.mask_and_sum(channels.size(), convolution_.lanes.width, y_.empty() ? nullptr : y_.data() + at,
                              dy_.data() + at, sums);
  }
}

void WeightGradient::add_products(Range rows, Range channels, float* scratch, const Sums& sums) const {
  Pairs pairs(convolution_.x.out);
  const Index step = positions_at_once();
  for (Index row = rows.first; row < rows.end; ++row) {
    for (Index group = 0; group < convolution_.groups; ++group) {
      for (Index first = 0; first < convolution_.x.out; first += step) {
        const Piece piece{row / convolution_.y.out,
                          row % convolution_.y.out,
                          group,
                          {first, std::min(first + step, convolution_.x.out)}};
        mask_and_sum(piece, channels, sums.db);
        transpose(piece, channels, scratch);
        add_piece(piece, channels, scratch, pairs, sums.dw + group * group_size());
      }
    }
  }
}

/// transposed [position][lane][channel] = dy
void WeightGradient::transpose(const Piece& piece, Range channels, float* transposed) const {
  const Index width = convolution_.lanes.width, stride = round_up(channels.size());
  for (Index ox = piece.positions.first; ox < piece.positions.end; ++ox) {
    loops_.transpose(channels.size(), width, dy_.data() + dy_at(piece, ox, channels.first), width,
                     transposed + (ox - piece.positions.first) * width * stride, stride);
  }
}

void WeightGradient::add_piece(const Piece& piece, Range channels, const float* transposed, Pairs& pairs,
                               float* sum) const {
  const Index width = convolution_.lanes.width, stride = round_up(channels.size());
  const Range elements = convolution_.y.elements(piece.oy);
  Ahead ahead = next_of(piece, channels);
  for (Index ky = elements.first; ky < elements.end; ++ky) {
    for (const Segment& segment : segments_) {
      pairs.clear();
      const Index end = std::min(segment.positions.end, piece.positions.end);
      for (Index ox = std::max(segment.positions.first, piece.positions.first); ox < end; ++ox) {
        pairs.add(transposed + (ox - piece.positions.first) * width * stride,
                  x_at(piece, ky, ox, segment.elements.first));
      }
      if (pairs.count() == 0) continue;
      const ProductShape shape{.m = channels.size(),
                               .n = segment.elements.size() * convolution_.in,
                               .k = width,
                               .lda = stride,
                               .ldb = width,
                               .ldc = products_,
                               .accumulate = true};
      loops_.product(shape, pairs.a.data(), pairs.b.data(), pairs.count(), nullptr,
                     sum + convolution_.weight_at(0, ky, segment.elements.first) * products_ + channels.first, &ahead);
    }
  }
}

/// What to prefetch: dy of the positions after a piece, and x of the row below it.
Ahead WeightGradient::next_of(const Piece& piece, Range channels) const {
  if (!convolution_.runs) return {x_.data(), 0, x_.data(), 0};
  const Index width = convolution_.lanes.width, positions = piece.positions.size();
  const ProductShape all{.m = channels.size(), .n = convolution_.x.kernel * convolution_.in, .k = width};
  const Index products = positions * convolution_.y.elements(piece.oy).size();
  const Piece below{piece.block, piece.oy + 1, piece.group, piece.positions};
  return {dy_.data() + dy_at(piece, piece.positions.end, channels.first),
          fetch_step(loops_, all, products, positions * convolution_.out * width),
          x_at(below, convolution_.y.kernel - 1, piece.positions.first, 0),
          fetch_step(loops_, all, products, positions * convolution_.x.stride * convolution_.in * width)};
}

void WeightGradient::add_along_lanes(Range rows, const Sums& sums) const {
  const Range channels{products_, convolution_.out};
  if (channels.size() == 0) return;
  Pairs pairs(convolution_.x.out * kRowsAlongLanes);
  for (Index first = rows.first; first < rows.end; first += kRowsAlongLanes) {
    const Range some{first, std::min(first + kRowsAlongLanes, rows.end)};
    for (Index group = 0; group < convolution_.groups; ++group) {
      for (Index row = some.first; row < some.end; ++row) {
        mask_and_sum({row / convolution_.y.out, row % convolution_.y.out, group, {0, convolution_.x.out}}, channels,
                     sums.db);
      }
      add_rows_along_lanes(some, group, pairs, sums.dw + group * group_size() + products_ * group_stride());
    }
  }
}

void WeightGradient::add_rows_along_lanes(Range rows, Index group, Pairs& pairs, float* sum) const {
  for (Index ky = 0; ky < convolution_.y.kernel; ++ky) {
    for (const Segment& segment : segments_) {
      pairs.clear();
      for (Index row = rows.first; row < rows.end; ++row) {
        const Piece piece{row / convolution_.y.out, row % convolution_.y.out, group, segment.positions};
        const Range elements = convolution_.y.elements(piece.oy);
        if (ky < elements.first || ky >= elements.end) continue;
        for (Index ox = segment.positions.first; ox < segment.positions.end; ++ox) {
          pairs.add(dy_.data() + dy_at(piece, ox, products_), x_at(piece, ky, ox, segment.elements.first));
        }
      }
      const DotShape shape{.m = convolution_.out - products_,
                           .n = segment.elements.size() * convolution_.in,
                           .width = convolution_.lanes.width,
                           .ldc = group_stride()};
      along_lanes_.dots(shape, pairs.a.data(), pairs.b.data(), pairs.count(),
                        sum + convolution_.weight_at(0, ky, segment.elements.first));
    }
  }
}

void WeightGradient::write(const float* sum, float* dw) const {
  for (Index group = 0; group < convolution_.groups; ++group) {
    const float* const from = sum + group * group_size();
    float* const to = dw + group * group_size();
    const Index split = products_ * group_stride();
    loops_.transpose(group_stride(), products_, from, products_, to, group_stride());
    std::copy(from + split, from + group_size(), to + split);
  }
}

}  // namespace unisono::kernels::cpu
