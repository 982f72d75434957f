#include <algorithm>
#include <cassert>

#include "cpu/convolution.hpp"
#include "cpu/cpu_backend.hpp"
#include "cpu/loop_team.hpp"
#include "cpu/loops.hpp"

namespace unisono::kernels::cpu {
namespace {

/// The taps of a group at an output's position: pairs of [channels][lane] of x and [O][channels] of W.
/// \returns how many positions of x a pair runs over
Index gather_taps(const Convolution& convolution, Index block, Index oy, Index ox, Index group, View x, View w,
                  Pairs& pairs) {
  const Range rows = convolution.y.elements(oy), columns = convolution.x.elements(ox);
  const Index run = convolution.runs ? columns.size() : 1;
  pairs.clear();
  for (Index ky = rows.first; ky < rows.end; ++ky) {
    for (Index kx = columns.first; kx < columns.end; kx += run) {
      const Index from = convolution.input_at(block, convolution.y.input(oy, ky), convolution.x.input(ox, kx));
      pairs.add(x.data() + from + group * convolution.in * convolution.lanes.width,
                w.data() + convolution.weight_at(group * convolution.out, ky, kx));
    }
  }
  return run;
}

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
  WeightGradient(const Convolution& convolution, const Loops& loops, const Loops& along_lanes, View x, View y);

  Index rows() const { return convolution_.lanes.blocks * convolution_.y.out; }  ///< of the output, in all blocks
  Index row_floats() const { return convolution_.x.out * pixel_floats(); }       ///< of a row of the output
  Index products() const { return products_; }  ///< P: the first channels of a group, which are computed by products
  Index scratch_size() const;                   ///< floats that add_products needs

  /// Some rows of the output, and their gradients.
  struct Rows {
    Range range;
    float* dy;
  };
  /// Partial sums over rows of the output.
  struct Sums {
    float* dw;
    float* db;  ///< [O][16]: lanes modulo 16 are sums of their own; null where there is no bias
  };

  /// sums += what rows contribute to channels ⊆ [0, products()) of each group. \pre at most kChannelsAtOnce
  void add_products(const Rows& rows, Range channels, float* scratch, const Sums& sums) const;
  /// sums += what rows contribute to the other channels.
  void add_along_lanes(const Rows& rows, const Sums& sums) const;

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
    float* dy;  ///< of the row
  };
  Piece piece_of(const Rows& rows, Index row, Index group, Range positions) const {
    return {row / convolution_.y.out, row % convolution_.y.out, group, positions,
            rows.dy + (row - rows.range.first) * row_floats()};
  }

  void find_segments();
  Index group_size() const { return convolution_.out * group_stride(); }
  Index group_stride() const { return convolution_.taps() * convolution_.in; }  ///< weights of a channel
  Index position_floats() const;                                                ///< of a position of dy, transposed
  Index positions_at_once() const;
  const float* x_at(const Piece& piece, Index ky, Index ox, Index kx) const;
  Index pixel_floats() const { return convolution_.groups * convolution_.out * convolution_.lanes.width; }
  /// The place of a channel of a piece's group in a row of the output.
  Index place_in_row(const Piece& piece, Index ox, Index channel) const {
    return ox * pixel_floats() + (piece.group * convolution_.out + channel) * convolution_.lanes.width;
  }
  float* dy_at(const Piece& piece, Index ox, Index channel) const {
    return piece.dy + place_in_row(piece, ox, channel);
  }
  void mask_and_sum(const Piece& piece, Range channels, float* db) const;
  void transpose(const Piece& piece, Range channels, float* transposed) const;
  void add_piece(const Piece& piece, Range channels, const float* transposed, Pairs& pairs, float* sum) const;
  Ahead next_of(const Piece& piece, Range channels) const;
  void add_rows_along_lanes(const Rows& rows, Index group, Pairs& pairs, float* sum) const;

  const Convolution& convolution_;
  const Loops& loops_;
  const Loops& along_lanes_;
  View x_, y_;
  Index products_;
  std::vector<Segment> segments_;
};

constexpr Index kTransposedFloats = Index{1} << 13;  ///< 32 KiB of dy, transposed at a time
constexpr Index kRowsAtOnce = 4;                     ///< of the output; along lanes, they are one sum

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

WeightGradient::WeightGradient(const Convolution& convolution, const Loops& loops, const Loops& along_lanes, View x,
                               View y)
    : convolution_(convolution),
      loops_(loops),
      along_lanes_(along_lanes),
      x_(x),
      y_(y),
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

void WeightGradient::mask_and_sum(const Piece& piece, Range channels, float* db) const {
  if (y_.empty() && db == nullptr) return;
  float* const sums = db == nullptr ? nullptr : db + (piece.group * convolution_.out + channels.first) * Lanes::kVector;
  const float* const y = y_.empty() ? nullptr : y_.data() + convolution_.output_at(piece.block, piece.oy, 0);
  for (Index ox = piece.positions.first; ox < piece.positions.end; ++ox) {
    const Index at = place_in_row(piece, ox, channels.first);
    along_lanes_.mask_and_sum(channels.size(), convolution_.lanes.width, y == nullptr ? nullptr : y + at, piece.dy + at,
                              sums);
  }
}

void WeightGradient::add_products(const Rows& rows, Range channels, float* scratch, const Sums& sums) const {
  Pairs pairs(convolution_.x.out);
  const Index step = positions_at_once();
  for (Index row = rows.range.first; row < rows.range.end; ++row) {
    for (Index group = 0; group < convolution_.groups; ++group) {
      for (Index first = 0; first < convolution_.x.out; first += step) {
        const Piece piece = piece_of(rows, row, group, {first, std::min(first + step, convolution_.x.out)});
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
    loops_.transpose(channels.size(), width, dy_at(piece, ox, channels.first), width,
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
  const Piece below{piece.block, piece.oy + 1, piece.group, piece.positions, nullptr};
  return {dy_at(piece, piece.positions.end, channels.first),
          fetch_step(loops_, all, products, positions * convolution_.out * width),
          x_at(below, convolution_.y.kernel - 1, piece.positions.first, 0),
          fetch_step(loops_, all, products, positions * convolution_.x.stride * convolution_.in * width)};
}

void WeightGradient::add_along_lanes(const Rows& rows, const Sums& sums) const {
  const Range channels{products_, convolution_.out};
  if (channels.size() == 0) return;
  Pairs pairs(convolution_.x.out * rows.range.size());
  for (Index group = 0; group < convolution_.groups; ++group) {
    for (Index row = rows.range.first; row < rows.range.end; ++row) {
      mask_and_sum(piece_of(rows, row, group, {0, convolution_.x.out}), channels, sums.db);
    }
    add_rows_along_lanes(rows, group, pairs, sums.dw + group * group_size() + products_ * group_stride());
  }
}

void WeightGradient::add_rows_along_lanes(const Rows& rows, Index group, Pairs& pairs, float* sum) const {
  for (Index ky = 0; ky < convolution_.y.kernel; ++ky) {
    for (const Segment& segment : segments_) {
      pairs.clear();
      for (Index row = rows.range.first; row < rows.range.end; ++row) {
        const Piece piece = piece_of(rows, row, group, segment.positions);
        const Range elements = convolution_.y.elements(piece.oy);
        if (ky < elements.first || ky >= elements.end) continue;
        for (Index ox = segment.positions.first; ox < segment.positions.end; ++ox) {
          pairs.add(dy_at(piece, ox, products_), x_at(piece, ky, ox, segment.elements.first));
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

constexpr Index kMostExampleParts = 8;  ///< at most
constexpr Index kExamplePartFloats = Index{1}
                                     << 15;  ///< at most, for 64 examples of all parts, if there are more than two
constexpr Index kLargest = Index{1} << 20;   ///< more weights than that are computed in one part

/// Rows of the output are summed in a few parts, which are added up at the end: threads have independent work, and
/// results depend only on the shape.
Index parts_of(const Convolution& convolution, Index rows) {
  const Index affordable = kExamplePartFloats * convolution.lanes.blocks / convolution.weights();
  const Index fewest = convolution.weights() > kLargest ? 1 : 2;
  return std::min(rows, std::clamp(affordable, fewest, kMostExampleParts));
}

/// The s-th of so many slices of a group's channels, in whole registers.
Range slice_of(Index channels, Index slices, Index s) {
  const Index registers = (channels + Lanes::kVector - 1) / Lanes::kVector;
  return {std::min(channels, registers * s / slices * Lanes::kVector),
          std::min(channels, registers * (s + 1) / slices * Lanes::kVector)};
}

}  // namespace

namespace {

/// Computes positions of a convolution's output, on one thread.
class Positions {
 public:
  Positions(const Convolution& convolution, const Loops& loops, View x, View w, View b, bool relu)
      : convolution_(convolution), loops_(loops), x_(x), w_(w), b_(b), relu_(relu), pairs_(convolution.taps()) {}

  Index size() const { return convolution_.groups * convolution_.out * convolution_.lanes.width; }  ///< floats of one
  /// y [channel][lane]
  void compute(Index block, Index oy, Index ox, float* y) {
    const Index width = convolution_.lanes.width, out = convolution_.out, in = convolution_.in;
    ProductShape shape{
        .m = width, .n = out, .lda = width, .ldb = convolution_.taps() * in, .ldc = width, .relu = relu_};
    for (Index group = 0; group < convolution_.groups; ++group) {
      shape.k = gather_taps(convolution_, block, oy, ox, group, x_, w_, pairs_) * in;
      Ahead ahead{x_.data(), 0, x_.data(), 0};
      if (convolution_.runs && pairs_.count() > 0) {
        ahead = successors_of(loops_, shape, pairs_, in, convolution_.x.stride * in * width);
      }
      loops_.product(shape, pairs_.a.data(), pairs_.b.data(), pairs_.count(),
                     b_.empty() ? nullptr : b_.data() + group * out, y + group * out * width, &ahead);
    }
  }

 private:
  const Convolution& convolution_;
  const Loops& loops_;
  View x_, w_, b_;
  bool relu_;
  Pairs pairs_;
};

}  // namespace

void CpuBackend::examples_forward(const ConvolutionSpec& spec, Index batch, View x, View w, View b, MutableView y) {
  const Convolution convolution(spec, Lanes(batch));
  assert(static_cast<Index>(w.size()) == convolution.weights());
  const Index image = convolution.y.out * convolution.x.out;
  parallel_ranges(settings_.threads, convolution.lanes.blocks * image, [&](Index first, Index end, int) {
    Positions positions(convolution, loops_of(convolution.lanes), x, w, b, spec.activation == Activation::relu);
    for (Index i = first; i < end; ++i) {
      const Index block = i / image, oy = i % image / convolution.x.out, ox = i % convolution.x.out;
      positions.compute(block, oy, ox, y.data() + convolution.output_at(block, oy, ox));
    }
  });
}

/// Four positions at a time, which stay in a cache until their maxima are taken.
void CpuBackend::pooled_examples_forward(const ConvolutionSpec& spec, Index batch, View x, View w, View b,
                                         MutableView y, std::uint8_t* places) {
  const Convolution convolution(spec, Lanes(batch));
  const Loops& loops = loops_of(convolution.lanes);
  const Index rows = convolution.y.out / 2, columns = convolution.x.out / 2, image = rows * columns;
  const Index size = Positions(convolution, loops, x, w, b, false).size();
  const Count taps[4] = {0, size, 2 * size, 3 * size};
  // Of the four values for each thread; and places that nobody wants.
  const Index room = 4 * size + Lanes::round_up(size / Index{sizeof(float)} + 1);
  float* const scratch = partials_.floats(settings_.threads * room);
  parallel_ranges(settings_.threads, convolution.lanes.blocks * image, [&](Index first, Index end, int thread) {
    Positions positions(convolution, loops, x, w, b, false);
    float* const values = scratch + thread * room;
    auto* const unwanted = reinterpret_cast<std::uint8_t*>(values + 4 * size);
    for (Index i = first; i < end; ++i) {
      const Index block = i / image, row = i % image / columns, column = i % columns;
      for (Index t = 0; t < 4; ++t) {
        positions.compute(block, 2 * row + t / 2, 2 * column + t % 2, values + taps[t]);
      }
      loops.pool.maximum_of_four(values, taps, spec.activation == Activation::relu, size, y.data() + i * size,
                                 places == nullptr ? unwanted : places + i * size);
    }
  });
}

// The gradient of a convolution's input. Each position of the input sums over the taps that read it. Along a row, these
// are the kernel's elements of one residue class modulo the stride, in descending order for ascending positions of the
// output. So W is first transposed to [I][KH][class, descending][O], which makes the taps of a row one run again.
void CpuBackend::examples_backward_data(const ConvolutionSpec& spec, Index batch, View w, View dy, MutableView dx) {
  const Convolution convolution(spec, Lanes(batch));
  const Index width = convolution.lanes.width, in = convolution.in, out = convolution.out, taps = convolution.taps();
  const std::vector<Index> order = element_order(convolution.x);
  float* const transposed = packed_.floats(convolution.weights());  // [groups][I][KH][KW in order][O]
  parallel_for(settings_.threads, convolution.groups * taps, [&](Index i) {
    const Index group = i / taps, ky = i % taps / convolution.x.kernel, place = i % convolution.x.kernel;
    loops_.transpose(out, in, w.data() + convolution.weight_at(group * out, ky, order[static_cast<std::size_t>(place)]),
                     taps * in, transposed + (group * in * taps + ky * convolution.x.kernel + place) * out, taps * out);
  });

  const auto rows = taps_of_inputs(convolution.y), columns = taps_of_inputs(convolution.x);
  const Index image = convolution.y.in * convolution.x.in;
  const Loops& loops = loops_of(convolution.lanes);
  const ProductShape common{.m = width, .n = in, .lda = width, .ldb = taps * out, .ldc = width};
  parallel_ranges(settings_.threads, convolution.lanes.blocks * image, [&](Index first, Index end, int) {
    ProductShape shape = common;
    Pairs pairs(taps);
    for (Index i = first; i < end; ++i) {
      const Index block = i / image, iy = i % image / convolution.x.in, ix = i % convolution.x.in;
      const auto& row = rows[static_cast<std::size_t>(iy)];
      const auto& column = columns[static_cast<std::size_t>(ix)];
      const std::size_t run = convolution.runs ? std::max<std::size_t>(1, column.size()) : 1;
      shape.k = static_cast<Index>(run) * out;
      for (Index group = 0; group < convolution.groups; ++group) {
        pairs.clear();
        for (const Tap& y : row) {
          for (std::size_t j = 0; j < column.size(); j += run) {
            pairs.add(dy.data() + convolution.output_at(block, y.position, column[j].position) + group * out * width,
                      transposed + (group * in * taps + y.element * convolution.x.kernel + column[j].place) * out);
          }
        }
        Ahead ahead{dy.data(), 0, dy.data(), 0};
        if (convolution.runs && pairs.count() > 0) {
          ahead = successors_of(loops, shape, pairs, out, out * width / convolution.x.stride);
        }
        loops.product(shape, pairs.a.data(), pairs.b.data(), pairs.count(), nullptr,
                      dx.data() + convolution.input_at(block, iy, ix) + group * in * width, &ahead);
      }
    }
  });
}

/// As convolution_backward without dx, which masks dy, too. \param y empty where there is nothing to mask
/// \param dy empty where `fill_row` computes its rows, which only a cache then holds
void CpuBackend::examples_backward_weights(const ConvolutionSpec& spec, Index batch, View x, View y, MutableView dy,
                                           MutableView dw, MutableView db, Write write, const FillRow& fill_row) {
  const Convolution convolution(spec, Lanes(batch));
  const WeightGradient gradient(convolution, loops_, loops_of(convolution.lanes), x, y);
  const Index size = convolution.weights(), rows = gradient.rows(), parts = parts_of(convolution, rows);
  // Slices divide the work further where there are many threads; they change no result.
  const Index slices =
      std::max((gradient.products() + WeightGradient::kChannelsAtOnce - 1) / WeightGradient::kChannelsAtOnce,
               (settings_.threads + parts - 1) / parts);
  const Index row_floats = gradient.row_floats();
  const Index room = gradient.scratch_size() + (dy.empty() ? kRowsAtOnce * row_floats : 0);
  const Index bias_size = static_cast<Index>(db.size()) * Lanes::kVector;
  // Of dw for each part, and one in the order of dw; then of db for each part.
  float* const sums = partials_.floats((parts + 1) * size + parts * bias_size);
  float* const bias_sums = db.empty() ? nullptr : sums + (parts + 1) * size;
  float* const scratch = packed_.floats(settings_.threads * room);

  parallel_chunks(settings_.threads, (parts + 1) * size + parts * bias_size,
                  [&](Index first, Index length) { std::fill_n(sums + first, length, 0.0F); });
  parallel_ranges(settings_.threads, parts * slices, [&](Index first, Index end, int thread) {
    for (Index task = first; task < end; ++task) {
      const Index part = task / slices, slice = task % slices, last = rows * (part + 1) / parts;
      const Range channels = slice_of(gradient.products(), slices, slice);
      const WeightGradient::Sums sum{sums + part * size, db.empty() ? nullptr : bias_sums + part * bias_size};
      for (Index row = rows * part / parts; row < last; row += kRowsAtOnce) {
        float* const own = scratch + thread * room;
        float* const computed = own + gradient.scratch_size();
        const WeightGradient::Rows some{{row, std::min(row + kRowsAtOnce, last)},
                                        dy.empty() ? computed : dy.data() + row * row_floats};
        for (Index i = row; dy.empty() && i < some.range.end; ++i) fill_row(i, computed + (i - row) * row_floats);
        if (channels.size() > 0) gradient.add_products(some, channels, own, sum);
        if (slice == slices - 1) gradient.add_along_lanes(some, sum);
      }
    }
  });
  add_up_bias(bias_sums, parts, Lanes::kVector, db, write);
  add_up_parts(sums, parts, size);
  if (write == Write::overwrite) return gradient.write(sums, dw.data());
  gradient.write(sums, sums + parts * size);
  axpby(1, {sums + parts * size, dw.size()}, 1, dw);
}

/// sums [parts][size]: the first part becomes the sum of all, in their order.
void CpuBackend::add_up_parts(float* sums, Index parts, Index size) {
  parallel_chunks(settings_.threads, size, [&](Index first, Index length) {
    for (Index part = 1; part < parts; ++part) {
      loops_.algebra.axpby(1, sums + part * size + first, 1, sums + first, length);
    }
  });
}

}  // namespace unisono::kernels::cpu
