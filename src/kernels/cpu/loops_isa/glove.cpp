// GloVe, one entry after the other: d = w · v + b + c − ln x, f = min(1, (x / x_max)^α); the gradients of f d² / 2 are
// f d v and f d for the word and f d w and f d for the context, and each number has its own sum of squares (Adagrad):
//   w ← w − rate g / √G,  G ← G + g²
// A bias is column D of its row; its factor in the other row is 1. ln x and f are computed for a block of entries at a
// time. 14 (D + 1) flops; 4 rows of D + 1 floats are read and written, and prefetched some entries ahead.
#include "cpu/loops_isa/math.hpp"
#include "cpu/loops_isa/sums.hpp"
#include "cpu/loops_isa/table.hpp"
#include "cpu/loops_isa/vector_math.hpp"
#include "cpu/races.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

constexpr Count kBlock = 128;  ///< entries whose logarithms are computed together
constexpr Count kAhead = 6;    ///< how many entries ahead rows are prefetched
constexpr Count kEnd = 16;     ///< the last floats of a row, among which its bias is

/// What all entries share.
struct Problem {
  float rate;
  float* words;
  float* contexts;
  Count word_stride, context_stride;
  Count dimension, width;
  std::int32_t is_bias[kEnd];  ///< −1 at the bias among the last floats of a row, else 0
};

struct Block {
  alignas(64) float logarithm[kBlock], weight[kBlock];  ///< ln x and f
  alignas(64) float difference[kBlock];                 ///< d
};

void weigh(const SparseEntry* entries, Count count, const GloveStep& step, Block& block) {
  const float inverse = 1.0F / step.x_max;
#pragma omp simd
  for (Count i = 0; i < count; ++i) {
    const float x = entries[i].value, share = x * inverse;
    const float power = exponential(step.alpha * natural_logarithm(share));
    block.logarithm[i] = natural_logarithm(x);
    block.weight[i] = share >= 1.0F ? 1.0F : power;
  }
}

/// Σ f d² / 2
double loss_of(const Block& block, Count count) {
  double sums[kLanes] = {};
  for (Count start = 0; start < count; start += kLanes) {
    const Count lanes = count - start < kLanes ? count - start : kLanes;
#pragma omp simd
    for (Count lane = 0; lane < lanes; ++lane) {
      const auto d = static_cast<double>(block.difference[start + lane]);
      sums[lane] += static_cast<double>(block.weight[start + lane]) * d * d;
    }
  }
  double sum = 0;
  for (double lane : sums) sum += lane;
  return 0.5 * sum;
}

/// The two rows of an entry.
struct EntryVectors {
  float* w;
  float* v;
};

__attribute__((always_inline)) inline EntryVectors rows_of(const Problem& problem, const SparseEntry& entry) {
  return {problem.words + static_cast<Count>(entry.row) * problem.word_stride,
          problem.contexts + static_cast<Count>(entry.column) * problem.context_stride};
}

/// Prefetches one register of both rows and of their sums. It is called between the steps of two registers, so that
/// there are never more requests than the CPU can keep under way.
__attribute__((always_inline)) inline void fetch(const EntryVectors& rows, Count at, Count width) {
  __builtin_prefetch(rows.w + at, 1);
  __builtin_prefetch(rows.w + width + at, 1);
  __builtin_prefetch(rows.v + at, 1);
  __builtin_prefetch(rows.v + width + at, 1);
}

/// w · v + b + c: the product of one row with the other, whose bias is replaced by 1, plus that bias.
template <Count kWidth>
__attribute__((always_inline)) inline float predict(const Problem& problem, const float* w, const float* v) {
  const Count end = (kWidth > 0 ? kWidth : problem.width) - kEnd;
  Vector sums[2] = {};
#pragma GCC unroll 8
  for (Count at = 0; at < end; at += kLanes) sums[(at / kLanes) % 2] += load(w + at) * load(v + at);
#pragma GCC unroll 4
  for (Count i = 0; i < kEnd; i += kLanes) {
    const Vector other = load(problem.is_bias + i) ? broadcast(1.0F) : load(v + end + i);
    sums[1] += load(w + end + i) * other;
  }
  return add_all_lanes(sums[0] + sums[1])[0] + v[problem.dimension];
}

/// The step of one register of a row, at `weights`, and of its sums of squares: g = slope · other, and half is half the
/// rate times slope. \tparam kLast the row's last register, some of whose sums may be the zeros that fill it up
template <bool kLast>
__attribute__((always_inline)) inline void move(float* weights, float* squares, Vector weight, Vector other,
                                                Vector slope, Vector half) {
  const Vector sum = load(squares), g = slope * other;
  const InverseRoot root = inverse_root(kLast ? (sum == 0.0F ? broadcast(1.0F) : sum) : sum);
  store(weights, weight - ((half * other) * root.estimate) * root.twice);
  store(squares, sum + g * g);
}

/// The steps of both rows, for f d, while the rows of a later entry are prefetched.
template <Count kWidth>
__attribute__((always_inline)) inline void update(const Problem& problem, float slope, const EntryVectors& rows,
                                                  const EntryVectors& later) {
  float* const w = rows.w;
  float* const v = rows.v;
  const Count width = kWidth > 0 ? kWidth : problem.width, end = width - kEnd;
  const Vector slopes = broadcast(slope), half = broadcast(0.5F * problem.rate * slope), one = broadcast(1.0F);
#pragma GCC unroll 8
  for (Count at = 0; at < end; at += kLanes) {
    fetch(later, at, width);
    const Vector x = load(w + at), y = load(v + at);
    move<false>(w + at, w + width + at, x, y, slopes, half);
    move<false>(v + at, v + width + at, y, x, slopes, half);
  }
#pragma GCC unroll 4
  for (Count i = 0; i < kEnd; i += kLanes) {
    const Count at = end + i;
    fetch(later, at, width);
    const Integers bias = load(problem.is_bias + i);
    const Vector x = load(w + at), y = load(v + at);
    move<true>(w + at, w + width + at, x, bias ? one : y, slopes, half);
    move<true>(v + at, v + width + at, y, bias ? one : x, slopes, half);
  }
}

template <Count kWidth>
UNISONO_RACES_BY_DESIGN double run(const SparseEntry* entries, Count count, const GloveStep& step,
                                   const Problem& problem) {
  Block block;
  double loss = 0;
  for (Count start = 0; start < count; start += kBlock) {
    const Count some = count - start < kBlock ? count - start : kBlock;
    weigh(entries + start, some, step, block);
    for (Count i = 0; i < some; ++i) {
      const EntryVectors later = rows_of(problem, entries[start + i + kAhead < count ? start + i + kAhead : count - 1]);
      const EntryVectors rows = rows_of(problem, entries[start + i]);
      block.difference[i] = predict<kWidth>(problem, rows.w, rows.v) - block.logarithm[i];
      update<kWidth>(problem, block.weight[i] * block.difference[i], rows, later);
    }
    loss += loss_of(block, some);
  }
  return loss;
}

double glove(const SparseEntry* entries, Count count, const GloveStep& step, const GloveRows& words,
             const GloveRows& contexts) {
  Problem problem{step.rate,
                  words.weights.values,
                  contexts.weights.values,
                  words.weights.stride,
                  contexts.weights.stride,
                  words.dimension,
                  words.weights.width,
                  {}};
  problem.is_bias[words.dimension - (words.weights.width - kEnd)] = -1;
  switch (problem.width) {
    case 64:
      return run<64>(entries, count, step, problem);
    case 112:
      return run<112>(entries, count, step, problem);
    default:
      return run<0>(entries, count, step, problem);
  }
}

}  // namespace

void add_glove(Loops& loops) { loops.in_place.glove = glove; }

}  // namespace unisono::kernels::cpu::UNISONO_ISA
