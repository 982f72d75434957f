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
// from shapes. Where the vocabulary is divided among ranks, a leaf of it has pieces and ranges of its own. The ranks
// then exchange four doubles for each row and leaf before its softmax, and how many logits are before the label's after
// it; each adds up dx over its own leaves.
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

/// Classes that are computed together. Classes are counted from the first one that this rank has.
struct HeadPiece {
  Index first, size;
};

/// Pieces whose parts of dx are added up in their order, apart from those of other ranges.
struct HeadRange {
  Index first_piece, last_piece;
};

/// The shapes of a head's parts.
struct HeadShape {
  Lanes lanes;
  HeadSpec spec;
  std::vector<HeadPiece> pieces = {};  ///< of all leaves that this rank has, in their order
  std::vector<HeadRange> ranges = {};
  std::vector<Index> first_piece = {0}, first_range = {0};  ///< of each of these leaves, and the end

  HeadShape(const Lanes& rows, const HeadSpec& given) : lanes(rows), spec(given) {
    for (int leaf = spec.first; leaf < spec.first + spec.count; ++leaf) add_leaf(leaf);
  }

  Index units() const { return spec.units; }
  Index classes() const { return spec.held(); }
  /// The number in the vocabulary of the first class that this rank has.
  Index first_class() const { return spec.token(spec.first); }
  Index count() const { return std::ssize(pieces); }
  const HeadPiece& piece(Index i) const { return pieces[static_cast<std::size_t>(i)]; }
  const HeadRange& range(Index i) const { return ranges[static_cast<std::size_t>(i)]; }
  /// Blocks of a chunk, the same on all ranks.
  Index chunk() const {
    return std::clamp<Index>(kChunkFloats / (std::max(spec.vocabulary, spec.units) * lanes.width), 1, lanes.blocks);
  }
  Index block_size() const { return spec.units * lanes.width; }

 private:
  void add_leaf(int leaf) {
    const Index first = spec.token(leaf) - first_class(), last = spec.token(leaf + 1) - first_class();
    const Index before = count();
    for (Index at = first; at < last; at += kPiece) pieces.push_back({at, std::min(kPiece, last - at)});
    const Index own = count() - before, parts = std::clamp<Index>(own / kRangePieces, 1, kMostRanges);
    for (Index i = 0; i < parts; ++i) ranges.push_back({before + own * i / parts, before + own * (i + 1) / parts});
    first_piece.push_back(count());
    first_range.push_back(std::ssize(ranges));
  }
};

/// What a leaf knows of a row's logits.
struct LeafSoftmax {
  double largest = 0;
  double exponentials = 0;  ///< Σ exp(z − largest)
  double logits = 0;        ///< Σ z
  double label = 0;         ///< the label's logit; 0 in all leaves but its own
};
static_assert(sizeof(LeafSoftmax) == 4 * sizeof(double));

/// Memory of a chunk's logits, [block][class][lane]; and of parts of dx, [range][block][unit][lane].
struct HeadRoom {
  float *logits, *dx;
};

/// One chunk of rows after the other.
class HeadPass {
 public:
  HeadPass(const Loops& loops, int threads, const HeadShape& shape, const HeadInputs& inputs,
           const HeadGradients& gradients, TensorGroup* group)
      : loops_(loops),
        threads_(threads),
        shape_(shape),
        inputs_(inputs),
        gradients_(gradients),
        group_(group),
        width_(shape.lanes.width) {}

  Index logits_size() const { return shape_.chunk() * shape_.classes() * width_; }
  Index dx_size() const { return sums_dx() ? std::ssize(shape_.ranges) * shape_.chunk() * shape_.block_size() : 0; }
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
      if (!gradients_.dw.empty()) differentiate_weights(transposed);
    }
  }

 private:
  bool backward() const { return !gradients_.dx.empty() || !gradients_.dw.empty(); }
  bool sums_dx() const { return !gradients_.dx.empty() && shape_.ranges.size() > 1; }
  Index panels() const { return quotient(shape_.units(), kUnitPanel); }
  const float* x(Index block) const { return inputs_.x.data() + (first_ + block) * shape_.block_size(); }
  const float* w(Index piece) const { return inputs_.w.data() + shape_.piece(piece).first * shape_.units(); }
  float* logits(Index block, Index label) const { return room_.logits + (block * shape_.classes() + label) * width_; }
  PartialSoftmax& partial(Index piece, Index block) {
    return partials_[static_cast<std::size_t>(block * shape_.count() + piece)];
  }
  LeafSoftmax& leaf_of(int leaf, Index block, Index lane) {
    return leaves_[static_cast<std::size_t>((leaf * blocks_ + block) * width_ + lane)];
  }
  Columns columns(Index piece, Index block) const {
    return {shape_.piece(piece).size, width_, width_, shape_.lanes.used(first_ + block)};
  }
  /// Floats to advance with each step of a product of so many multiply-adds, to have fetched `floats` at its end.
  Count step(Index floats, Index multiply_adds) const {
    return static_cast<Count>(
        std::ceil(static_cast<double>(floats) * loops_.multiply_adds_per_step / static_cast<double>(multiply_adds)));
  }
  /// Fetches the weights of the piece after this one, if they exist.
  Ahead next_weights(Index piece) const {
    const float* const next = w(std::min(piece + 1, shape_.count() - 1));
    const bool last = piece + 1 >= shape_.count() || shape_.piece(piece + 1).size < kPiece;
    return {next, 0, next, last ? 0 : step(kPiece * shape_.units(), kPiece * shape_.units() * width_)};
  }

  void compute_logits() {
    partials_.resize(static_cast<std::size_t>(shape_.count() * blocks_));
    parallel_for(threads_, shape_.count() * blocks_, [&](Index task) {
      const Index piece = task / blocks_, block = task % blocks_;
      const ProductShape shape{.m = width_,
                               .n = shape_.piece(piece).size,
                               .k = shape_.units(),
                               .lda = width_,
                               .ldb = shape_.units(),
                               .ldc = width_};
      const float *const left = x(block), *const right = w(piece);
      float* const z = logits(block, shape_.piece(piece).first);
      Ahead ahead = next_weights(piece);
      loops_.product(shape, &left, &right, 1, nullptr, z, &ahead);
      loops_.head.sums(columns(piece, block), z, partial(piece, block));
    });
  }

  /// The rows' softmax from those of the pieces, and their losses.
  void combine(LossSums& sums) {
    lanes_.resize(static_cast<std::size_t>(blocks_));
    leaves_.assign(static_cast<std::size_t>(shape_.spec.leaves * blocks_ * width_), {});
    parallel_for(threads_, blocks_, [&](Index block) {
      for (Index lane = 0; lane < width_; ++lane) combine_pieces(block, lane);
    });
    if (group_ != nullptr) group_->sum({&leaves_.data()->largest, 4 * leaves_.size()});
    std::vector<LossSums> losses(static_cast<std::size_t>(blocks_));
    parallel_for(threads_, blocks_, [&](Index block) {
      for (Index lane = 0; lane < width_; ++lane) combine_leaves(block, lane, losses[static_cast<std::size_t>(block)]);
    });
    for (const LossSums& loss : losses) {
      sums.loss += loss.loss;
      sums.examples += loss.examples;
    }
  }

  /// The class of a row's label, counted from this rank's first; it may be another rank's. −1: there is none.
  std::int32_t label_of(Index block, Index lane) const {
    const bool exists = lane < shape_.lanes.used(first_ + block);
    return exists ? inputs_.labels[static_cast<std::size_t>((first_ + block) * width_ + lane)] : -1;
  }

  /// A row's softmax of each leaf that this rank has.
  void combine_pieces(Index block, Index lane) {
    const Index label = label_of(block, lane), own = label - shape_.first_class();
    for (int i = 0; i < shape_.spec.count; ++i) {
      const Index begin = shape_.first_piece[static_cast<std::size_t>(i)];
      const Index end = shape_.first_piece[static_cast<std::size_t>(i) + 1];
      LeafSoftmax& leaf = leaf_of(shape_.spec.first + i, block, lane);
      float largest = partial(begin, block).largest[lane];
      for (Index piece = begin + 1; piece < end; ++piece) {
        largest = std::max(largest, partial(piece, block).largest[lane]);
      }
      for (Index piece = begin; piece < end; ++piece) {
        const PartialSoftmax& part = partial(piece, block);
        leaf.exponentials += part.exponentials[lane] * std::exp(static_cast<double>(part.largest[lane] - largest));
        leaf.logits += part.logits[lane];
      }
      leaf.largest = static_cast<double>(largest);
      const bool has_label = label >= 0 && own >= shape_.piece(begin).first && own < end_of(end - 1);
      if (has_label) leaf.label = static_cast<double>(logits(block, own)[lane]);
    }
  }
  Index end_of(Index piece) const { return shape_.piece(piece).first + shape_.piece(piece).size; }

  void combine_leaves(Index block, Index lane, LossSums& sums) {
    HeadLanes& lanes = lanes_[static_cast<std::size_t>(block)];
    const std::int32_t label = label_of(block, lane);
    assert(label < shape_.spec.vocabulary);
    double most = leaf_of(0, block, lane).largest;
    for (int leaf = 1; leaf < shape_.spec.leaves; ++leaf) most = std::max(most, leaf_of(leaf, block, lane).largest);
    double exponentials = 0, all = 0, at_label = 0;
    for (int leaf = 0; leaf < shape_.spec.leaves; ++leaf) {
      const LeafSoftmax& part = leaf_of(leaf, block, lane);
      exponentials += part.exponentials * std::exp(part.largest - most);
      all += part.logits;
      at_label += part.label;
    }
    const auto classes = static_cast<float>(shape_.spec.vocabulary);
    const float smoothing = shape_.spec.smoothing;
    lanes.labels[lane] = label;
    lanes.label[lane] = static_cast<float>(at_label);
    lanes.largest[lane] = static_cast<float>(most);
    lanes.share[lane] = static_cast<float>(static_cast<double>(gradients_.scale) / exponentials);
    lanes.spread[lane] = gradients_.scale * smoothing / classes;
    if (label < 0) return;
    sums.loss += std::log(exponentials) - (1 - static_cast<double>(smoothing)) * (at_label - most);
    if (smoothing != 0) sums.loss -= static_cast<double>(smoothing) * (all / static_cast<double>(classes) - most);
    ++sums.examples;
  }

  /// Logits become their gradients, where these are wanted, with the parts of dx; hits are counted.
  void differentiate(LossSums& sums) {
    const Index ranges = std::ssize(shape_.ranges), tasks = ranges * blocks_;
    std::vector<std::array<std::int32_t, kMaximumLanes>> before(static_cast<std::size_t>(tasks));
    parallel_for(threads_, tasks, [&](Index task) {
      const Index range = task / blocks_, block = task % blocks_;
      std::array<std::int32_t, kMaximumLanes>& counts = before[static_cast<std::size_t>(task)];
      counts.fill(0);
      for (Index piece = shape_.range(range).first_piece; piece < shape_.range(range).last_piece; ++piece) {
        differentiate_piece(range, piece, block, counts.data());
      }
    });
    std::vector<double> ranks(static_cast<std::size_t>(blocks_ * width_));  // of the labels' logits, the largest has 0
    for (Index task = 0; task < tasks; ++task) {
      for (Index lane = 0; lane < width_; ++lane) {
        ranks[static_cast<std::size_t>(task % blocks_ * width_ + lane)] +=
            before[static_cast<std::size_t>(task)][static_cast<std::size_t>(lane)];
      }
    }
    if (group_ != nullptr) group_->sum(ranks);
    for (Index i = 0; i < blocks_ * width_; ++i) {
      if (lanes_[static_cast<std::size_t>(i / width_)].labels[i % width_] < 0) continue;
      sums.correct += ranks[static_cast<std::size_t>(i)] < 1 ? 1 : 0;
      sums.correct_top5 += ranks[static_cast<std::size_t>(i)] < 5 ? 1 : 0;
    }
  }

  void differentiate_piece(Index range, Index piece, Index block, std::int32_t* before) {
    const HeadLanes& lanes = lanes_[static_cast<std::size_t>(block)];
    const Index first = shape_.first_class() + shape_.piece(piece).first;
    float* const z = logits(block, shape_.piece(piece).first);
    if (!backward()) return loops_.head.count(columns(piece, block), first, z, lanes, before);
    loops_.head.gradient(columns(piece, block), first, lanes, z, before);
    for (Index lane = 0; lane < width_; ++lane) {
      const Index label = lanes.labels[lane] - first;
      if (lanes.labels[lane] < 0 || label < 0 || label >= shape_.piece(piece).size) continue;
      z[label * width_ + lane] -= gradients_.scale * (1.0F - shape_.spec.smoothing);
    }
    if (gradients_.dx.empty()) return;
    const ProductShape shape{.m = width_,
                             .n = shape_.units(),
                             .k = shape_.piece(piece).size,
                             .lda = width_,
                             .ldb = shape_.units(),
                             .ldc = width_,
                             .transposed = true,
                             .accumulate = piece > shape_.range(range).first_piece};
    const float *const left = z, *const right = w(piece);
    Ahead ahead = next_weights(piece);
    loops_.product(shape, &left, &right, 1, nullptr, dx_part(range, block), &ahead);
  }

  float* dx_part(Index range, Index block) const {
    if (!sums_dx()) return gradients_.dx.data() + (first_ + block) * shape_.block_size();
    return room_.dx + (range * blocks_ + block) * shape_.block_size();
  }

  void add_up_dx() const {
    const Index size = blocks_ * shape_.block_size();
    float* const to = gradients_.dx.data() + first_ * shape_.block_size();
    parallel_chunks(threads_, size, [&](Index first, Index length) {
      for (std::size_t leaf = 0; leaf + 1 < shape_.first_range.size(); ++leaf) {
        const Index begin = shape_.first_range[leaf], end = shape_.first_range[leaf + 1];
        for (Index range = begin + 1; range < end; ++range) add_range(range, begin, first, length);
      }
      add_up_leaves(0, shape_.spec.count, first, length);
      std::copy_n(room_.dx + first, length, to + first);
    });
  }
  /// dx of range `to` += dx of range `from`, for floats [first, first + length).
  void add_range(Index from, Index to, Index first, Index length) const {
    const Index size = blocks_ * shape_.block_size();
    loops_.algebra.axpby(1, room_.dx + from * size + first, 1, room_.dx + to * size + first, length);
  }
  /// dx of the first range of leaf `leaf` ← that of `count` leaves, each in its first range, in the order of the tree.
  void add_up_leaves(int leaf, int count, Index first, Index length) const {
    if (count == 1) return;
    const int left = left_leaves(count);
    add_up_leaves(leaf, left, first, length);
    add_up_leaves(leaf + left, count - left, first, length);
    add_range(shape_.first_range[static_cast<std::size_t>(leaf + left)],
              shape_.first_range[static_cast<std::size_t>(leaf)], first, length);
  }

  /// \param transposed room for xᵀ as [panel][block][lane][kUnitPanel]
  void differentiate_weights(float* transposed) const {
    const Index units = shape_.units();
    parallel_for(threads_, panels() * blocks_, [&](Index i) {
      const Index unit = i / blocks_ * kUnitPanel;
      loops_.transpose(std::min(kUnitPanel, units - unit), width_, x(i % blocks_) + unit * width_, width_,
                       transposed + i * width_ * kUnitPanel, kUnitPanel);
    });
    parallel_ranges(threads_, quotient(shape_.classes(), kSlice) * panels(), [&](Index from, Index to, int) {
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
    const Index units = shape_.units(), classes = shape_.classes(), unit = panel * kUnitPanel;
    const ProductShape shape{.m = std::min(kUnitPanel, units - unit),
                             .n = std::min(kSlice, classes - label),
                             .k = width_,
                             .lda = kUnitPanel,
                             .ldb = width_,
                             .ldc = units,
                             .accumulate = first_ > 0 || gradients_.write == Write::add};
    float* const to = gradients_.dw.data() + label * units + unit;
    Ahead ahead{to, 0, to, 0};
    if (label + 2 * kSlice <= classes) {  // dW and dz of the next slice, a part with each panel
      const Index all = kSlice * kUnitPanel * width_ * blocks_;
      ahead = {gradients_.dw.data() + ((label + kSlice) * units + kSlice * unit), step(kSlice * shape.m, all),
               right[0] + (kSlice + kSlice * panel / panels()) * width_, step(kSlice * width_ / panels(), all)};
    }
    loops_.product(shape, left.data(), right.data(), blocks_, nullptr, to, &ahead);
  }

  const Loops& loops_;
  int threads_;
  const HeadShape& shape_;
  const HeadInputs& inputs_;
  const HeadGradients& gradients_;
  TensorGroup* group_;
  Index width_;
  HeadRoom room_{};
  Index first_ = 0, blocks_ = 0;  ///< the chunk's blocks
  std::vector<PartialSoftmax> partials_;
  std::vector<LeafSoftmax> leaves_;  ///< [leaf][block][lane] of all leaves
  std::vector<HeadLanes> lanes_;
};

}  // namespace

void CpuBackend::head_loss(const HeadSpec& spec, const HeadInputs& inputs, const HeadGradients& gradients,
                           TensorGroup* group, LossSums& sums) {
  assert(std::ssize(inputs.labels) == inputs.rows);
  assert(std::ssize(inputs.w) == spec.held() * spec.units);
  if (inputs.rows == 0) {
    std::ranges::fill(gradients.dx, 0.0F);
    if (gradients.write == Write::overwrite) std::ranges::fill(gradients.dw, 0.0F);
    return;
  }
  const HeadShape shape(Lanes(inputs.rows), spec);
  HeadPass pass(loops_of(shape.lanes), settings_.threads, shape, inputs, gradients, group);
  const HeadRoom room{x_copy_.floats(pass.logits_size()), y_copy_.floats(pass.dx_size())};
  pass.run(room, packed_.floats(pass.transposed_size()), sums);
}

}  // namespace unisono::kernels::cpu
