// The head of a language model: logits z = W x, softmax cross-entropy, and its gradients. Rows are lanes, V classes and
// C units the columns of the products, which are 2·n·V·C flops each.
//
// Logits of all n rows would be n·V floats, for a vocabulary of 50,000 more than all other activations together. So
// they exist for a chunk of rows, at most 16 MiB of them (but at least a block of rows), and for each chunk
//
//   logits    z = W x for pieces of 120 classes, with the largest and the sum of exponentials of each piece
//   softmax   the pieces' sums give those of all classes, and the loss
//   gradient  z ← dz for pieces of classes, while each is in a cache: dx += dzᵀ W
//   weights   dW (+)= dz xᵀ
//
// A chunk of R rows reads W twice, and reads and writes dW: 16·V·C bytes for 6·R·V·C flops, or 24 flops a byte for the
// 64 rows of V = 50,257 — a core of 100 GFLOP/s then takes 4 GB/s. This is hidden as long as these lines are fetched
// while the product before is computed (`Ahead`). Larger chunks would save bytes of W and cost as many of logits, which
// would no longer stay in a cache between being written and being read three times (24·V bytes a row).
//
// Nothing depends on the number of threads: pieces, chunks and the ranges of classes whose dx are summed apart follow
// from shapes.
#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <vector>

#include "cpu/cpu_backend.hpp"
#include "cpu/lanes.hpp"
#include "cpu/loop_team.hpp"

namespace unisono::kernels::cpu {
namespace {

constexpr Index kChunkFloats = Index{1} << 22;        ///< of logits, and of x: 16 MiB
constexpr Index kPiece = 120;                         ///< classes: whole tiles of 6 columns, whole slices
constexpr Index kSlice = 24;                          ///< classes whose weights' gradient is computed at a time
constexpr Index kUnitPanel = 64;                      ///< … and units
constexpr Index kMostRanges = 16, kRangePieces = 16;  ///< at most so many ranges, of so many pieces at least

constexpr Index quotient(Index whole, Index part) { return (whole + part - 1) / part; }

/// The shapes of a head's parts.
struct HeadShape {
  Lanes lanes;
  Index units, classes;

  Index pieces() const { return quotient(classes, kPiece); }
  Index piece_size(Index piece) const { return std::min(kPiece, classes - piece * kPiece); }
  Index ranges() const { return std::clamp<Index>(pieces() / kRangePieces, 1, kMostRanges); }
  Index first_piece(Index range) const { return pieces() * range / ranges(); }
  /// Blocks of a chunk.
  Index chunk() const {
    return std::clamp<Index>(kChunkFloats / (std::max(classes, units) * lanes.width), 1, lanes.blocks);
  }
  Index block_size() const { return units * lanes.width; }
};

/// What a call of head_loss is given.
struct HeadViews {
  View x, w;
  std::span<const std::int32_t> labels;
  float scale, smoothing;
  MutableView dx, dw;
  Write write;
};

/// Memory of a chunk's logits, [block][class][lane]; and of parts of dx, [range][block][unit][lane].
struct HeadRoom {
  float *logits, *dx;
};

/// One chunk of rows after the other.
class HeadPass {
 public:
  HeadPass(const Loops& loops, int threads, const HeadShape& shape, const HeadViews& views)
      : loops_(loops), threads_(threads), shape_(shape), views_(views), width_(shape.lanes.width) {}

  Index logits_size() const { return shape_.chunk() * shape_.classes * width_; }
  Index dx_size() const { return sums_dx() ? shape_.ranges() * shape_.chunk() * shape_.block_size() : 0; }
  Index transposed_size() const { return panels() * shape_.chunk() * width_ * kUnitPanel; }

  void run(const HeadRoom& room, float* transposed, LossSums& sums) {
    room_ = room;
    for (Index block = 0; block < shape_.lanes.blocks; block += shape_.chunk()) {
      first_ = block;
      blocks_ = std::min(shape_.chunk(), shape_.lanes.blocks - block);
      compute_logits();
      combine(sums);
      differentiate(sums);
      if (sums_dx()) add_up_dx();
      if (!views_.dw.empty()) differentiate_weights(transposed);
    }
  }

 private:
  bool backward() const { return !views_.dx.empty() || !views_.dw.empty(); }
  bool sums_dx() const { return !views_.dx.empty() && shape_.ranges() > 1; }
  Index panels() const { return quotient(shape_.units, kUnitPanel); }
  const float* x(Index block) const { return views_.x.data() + (first_ + block) * shape_.block_size(); }
  const float* w(Index piece) const { return views_.w.data() + piece * kPiece * shape_.units; }
  float* logits(Index block, Index label) const { return room_.logits + (block * shape_.classes + label) * width_; }
  PartialSoftmax& partial(Index piece, Index block) {
    return partials_[static_cast<std::size_t>(block * shape_.pieces() + piece)];
  }
  Columns columns(Index piece, Index block) const {
    return {shape_.piece_size(piece), width_, width_, shape_.lanes.used(first_ + block)};
  }
  /// Floats to advance with each step of a product of so many multiply-adds, to have fetched `floats` at its end.
  Count step(Index floats, Index multiply_adds) const {
    return static_cast<Count>(
        std::ceil(static_cast<double>(floats) * loops_.multiply_adds_per_step / static_cast<double>(multiply_adds)));
  }
  /// Fetches the weights of the piece after this one, if they exist.
  Ahead next_weights(Index piece) const {
    const float* const next = w(std::min(piece + 1, shape_.pieces() - 1));
    const bool last = piece + 1 >= shape_.pieces() || shape_.piece_size(piece + 1) < kPiece;
    return {next, 0, next, last ? 0 : step(kPiece * shape_.units, kPiece * shape_.units * width_)};
  }

  void compute_logits() {
    partials_.resize(static_cast<std::size_t>(shape_.pieces() * blocks_));
    parallel_for(threads_, shape_.pieces() * blocks_, [&](Index task) {
      const Index piece = task / blocks_, block = task % blocks_;
      const ProductShape shape{.m = width_,
                               .n = shape_.piece_size(piece),
                               .k = shape_.units,
                               .lda = width_,
                               .ldb = shape_.units,
                               .ldc = width_};
      const float *const left = x(block), *const right = w(piece);
      float* const z = logits(block, piece * kPiece);
      Ahead ahead = next_weights(piece);
      loops_.product(shape, &left, &right, 1, nullptr, z, &ahead);
      loops_.head.sums(columns(piece, block), z, partial(piece, block));
    });
  }

  /// The rows' softmax from those of the pieces, and their losses.
  void combine(LossSums& sums) {
    lanes_.resize(static_cast<std::size_t>(blocks_));
    std::vector<LossSums> losses(static_cast<std::size_t>(blocks_));
    parallel_for(threads_, blocks_, [&](Index block) {
      for (Index lane = 0; lane < width_; ++lane) combine_lane(block, lane, losses[static_cast<std::size_t>(block)]);
    });
    for (const LossSums& loss : losses) {
      sums.loss += loss.loss;
      sums.examples += loss.examples;
    }
  }

  void combine_lane(Index block, Index lane, LossSums& sums) {
    HeadLanes& lanes = lanes_[static_cast<std::size_t>(block)];
    const bool exists = lane < shape_.lanes.used(first_ + block);
    const std::int32_t label = exists ? views_.labels[static_cast<std::size_t>((first_ + block) * width_ + lane)] : -1;
    assert(label < shape_.classes);
    lanes.labels[lane] = label;
    lanes.label[lane] = label < 0 ? 0 : logits(block, label)[lane];
    float largest = partial(0, block).largest[lane];
    for (Index piece = 1; piece < shape_.pieces(); ++piece) {
      largest = std::max(largest, partial(piece, block).largest[lane]);
    }
    double exponentials = 0, all = 0;
    for (Index piece = 0; piece < shape_.pieces(); ++piece) {
      const PartialSoftmax& part = partial(piece, block);
      exponentials += part.exponentials[lane] * std::exp(static_cast<double>(part.largest[lane] - largest));
      all += part.logits[lane];
    }
    lanes.largest[lane] = largest;
    lanes.share[lane] = static_cast<float>(static_cast<double>(views_.scale) / exponentials);
    lanes.spread[lane] = views_.scale * views_.smoothing / static_cast<float>(shape_.classes);
    if (label < 0) return;
    const auto most = static_cast<double>(largest), smoothing = static_cast<double>(views_.smoothing);
    sums.loss += std::log(exponentials) - (1 - smoothing) * (static_cast<double>(lanes.label[lane]) - most);
    if (smoothing != 0) sums.loss -= smoothing * (all / static_cast<double>(shape_.classes) - most);
    ++sums.examples;
  }

  /// Logits become their gradients, where these are wanted, with the parts of dx; hits are counted.
  void differentiate(LossSums& sums) {
    const Index tasks = shape_.ranges() * blocks_;
    std::vector<std::array<std::int32_t, kMaximumLanes>> before(static_cast<std::size_t>(tasks));
    parallel_for(threads_, tasks, [&](Index task) {
      const Index range = task / blocks_, block = task % blocks_;
      std::array<std::int32_t, kMaximumLanes>& counts = before[static_cast<std::size_t>(task)];
      counts.fill(0);
      for (Index piece = shape_.first_piece(range); piece < shape_.first_piece(range + 1); ++piece) {
        differentiate_piece(range, piece, block, counts.data());
      }
    });
    for (Index block = 0; block < blocks_; ++block) {
      for (Index lane = 0; lane < width_; ++lane) {
        if (lanes_[static_cast<std::size_t>(block)].labels[lane] < 0) continue;
        Index rank = 0;
        for (Index range = 0; range < shape_.ranges(); ++range) {
          rank += before[static_cast<std::size_t>(range * blocks_ + block)][static_cast<std::size_t>(lane)];
        }
        sums.correct += rank == 0 ? 1 : 0;
        sums.correct_top5 += rank < 5 ? 1 : 0;
      }
    }
  }

  void differentiate_piece(Index range, Index piece, Index block, std::int32_t* before) {
    const HeadLanes& lanes = lanes_[static_cast<std::size_t>(block)];
    const Index first = piece * kPiece;
    float* const z = logits(block, first);
    if (!backward()) return loops_.head.count(columns(piece, block), first, z, lanes, before);
    loops_.head.gradient(columns(piece, block), first, lanes, z, before);
    for (Index lane = 0; lane < width_; ++lane) {
      const Index label = lanes.labels[lane] - first;
      if (lanes.labels[lane] < 0 || label < 0 || label >= shape_.piece_size(piece)) continue;
      z[label * width_ + lane] -= views_.scale * (1.0F - views_.smoothing);
    }
    if (views_.dx.empty()) return;
    const ProductShape shape{.m = width_,
                             .n = shape_.units,
                             .k = shape_.piece_size(piece),
                             .lda = width_,
                             .ldb = shape_.units,
                             .ldc = width_,
                             .transposed = true,
                             .accumulate = piece > shape_.first_piece(range)};
    const float *const left = z, *const right = w(piece);
    Ahead ahead = next_weights(piece);
    loops_.product(shape, &left, &right, 1, nullptr, dx_part(range, block), &ahead);
  }

  float* dx_part(Index range, Index block) const {
    if (!sums_dx()) return views_.dx.data() + (first_ + block) * shape_.block_size();
    return room_.dx + (range * blocks_ + block) * shape_.block_size();
  }

  void add_up_dx() const {
    const Index size = blocks_ * shape_.block_size();
    float* const to = views_.dx.data() + first_ * shape_.block_size();
    parallel_chunks(threads_, size, [&](Index first, Index length) {
      std::copy_n(room_.dx + first, length, to + first);
      for (Index range = 1; range < shape_.ranges(); ++range) {
        loops_.algebra.axpby(1, room_.dx + range * size + first, 1, to + first, length);
      }
    });
  }

  /// \param transposed room for xᵀ as [panel][block][lane][kUnitPanel]
  void differentiate_weights(float* transposed) const {
    const Index units = shape_.units;
    parallel_for(threads_, panels() * blocks_, [&](Index i) {
      const Index unit = i / blocks_ * kUnitPanel;
      loops_.transpose(std::min(kUnitPanel, units - unit), width_, x(i % blocks_) + unit * width_, width_,
                       transposed + i * width_ * kUnitPanel, kUnitPanel);
    });
    parallel_ranges(threads_, quotient(shape_.classes, kSlice) * panels(), [&](Index from, Index to, int) {
      std::vector<const float*> left(static_cast<std::size_t>(blocks_)), right(left);
      for (Index i = from; i < to; ++i) {
        for (Index block = 0; block < blocks_; ++block) {
          left[static_cast<std::size_t>(block)] = transposed + (i % panels() * blocks_ + block) * width_ * kUnitPanel;
          right[static_cast<std::size_t>(block)] = logits(block, i / panels() * kSlice);
        }
        differentiate_slice(i / panels() * kSlice, i % panels(), left, right);
      }
    });
  }

  void differentiate_slice(Index label, Index panel, const std::vector<const float*>& left,
                           const std::vector<const float*>& right) const {
    const Index units = shape_.units, unit = panel * kUnitPanel;
    const ProductShape shape{.m = std::min(kUnitPanel, units - unit),
                             .n = std::min(kSlice, shape_.classes - label),
                             .k = width_,
                             .lda = kUnitPanel,
                             .ldb = width_,
                             .ldc = units,
                             .accumulate = first_ > 0 || views_.write == Write::add};
    float* const to = views_.dw.data() + label * units + unit;
    Ahead ahead{to, 0, to, 0};
    if (label + 2 * kSlice <= shape_.classes) {  // dW and dz of the next slice, a part with each panel
      const Index all = kSlice * kUnitPanel * width_ * blocks_;
      ahead = {views_.dw.data() + ((label + kSlice) * units + kSlice * unit), step(kSlice * shape.m, all),
               right[0] + (kSlice + kSlice * panel / panels()) * width_, step(kSlice * width_ / panels(), all)};
    }
    loops_.product(shape, left.data(), right.data(), blocks_, nullptr, to, &ahead);
  }

  const Loops& loops_;
  int threads_;
  HeadShape shape_;
  HeadViews views_;
  Index width_;
  HeadRoom room_{};
  Index first_ = 0, blocks_ = 0;  ///< the chunk's blocks
  std::vector<PartialSoftmax> partials_;
  std::vector<HeadLanes> lanes_;
};

}  // namespace

void CpuBackend::head_loss(const HeadSpec& spec, Index rows, View x, View w, std::span<const std::int32_t> labels,
                           float scale, MutableView dx, MutableView dw, Write write, LossSums& sums) {
  assert(static_cast<Index>(labels.size()) == rows);
  assert(static_cast<Index>(w.size()) == spec.vocabulary * spec.units);
  if (rows == 0) {
    std::ranges::fill(dx, 0.0F);
    if (write == Write::overwrite) std::ranges::fill(dw, 0.0F);
    return;
  }
  const HeadShape shape{Lanes(rows), spec.units, spec.vocabulary};
  HeadPass pass(loops_of(shape.lanes), settings_.threads, shape, {x, w, labels, scale, spec.smoothing, dx, dw, write});
  const HeadRoom room{x_copy_.floats(pass.logits_size()), y_copy_.floats(pass.dx_size())};
  pass.run(room, packed_.floats(pass.transposed_size()), sums);
}

}  // namespace unisono::kernels::cpu
