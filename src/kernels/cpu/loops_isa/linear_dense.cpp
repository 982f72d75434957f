#include "cpu/in_place_loops.hpp"
#include "cpu/loops_isa/margin_loss.hpp"
#include "cpu/loops_isa/sums.hpp"
#include "cpu/loops_isa/table.hpp"
#include "cpu/races.hpp"

// Linear models on contiguous rows of all features. 4 flops and 12 bytes per value, 8 of which are θ's, which stays in
// the cache.
namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

/// w · x, in four registers.
__attribute__((always_inline)) inline float dot(const float* x, const float* w, Count n) {
  Vector sums[4] = {};
  Count j = 0;
  for (; j + 4 * kLanes <= n; j += 4 * kLanes) {
#pragma GCC unroll 4
    for (Count i = 0; i < 4; ++i) sums[i] += load(x + j + i * kLanes) * load(w + j + i * kLanes);
  }
  for (; j + kLanes <= n; j += kLanes) sums[0] += load(x + j) * load(w + j);
  if (j < n) sums[1] += load_first(x + j, n - j) * load_first(w + j, n - j);
  return add_all_lanes((sums[0] + sums[1]) + (sums[2] + sums[3]))[0];
}

/// w ← w − move x, shrunk.
template <bool kPenalties, bool kAveraged>
UNISONO_RACES_BY_DESIGN void update(const float* x, Count n, const LinearWork& work, float move, float before) {
  float* const w = work.weights.weights;
  float* const weight_sums = work.weights.weight_sums;
  const float* const spread = work.step.spread;
  const Shrinking by(work.step);
#pragma omp simd
  for (Count j = 0; j < n; ++j) {
    const float old = w[j], mine = move * x[j];
    const float fresh = kPenalties ? shrunk(old, mine, by, spread[j]) : old - mine;
    w[j] = fresh;
    if (kAveraged) weight_sums[j] += before * (fresh - old);
  }
}

/// The steps of rows on the features of a part, or on all; the bias takes their mean.
template <bool kPenalties, bool kAveraged>
UNISONO_RACES_BY_DESIGN void steps(const DenseExamples& rows, const LinearWork& work, const float* moves) {
  const LinearWeights& weights = work.weights;
  const float share = 1.0F / static_cast<float>(rows.count);
  for (Count i = 0; i < rows.count; ++i) {
    const auto before = static_cast<float>(work.step.updates_before + static_cast<double>(i));
    update<kPenalties, kAveraged>(rows.values + i * rows.stride, rows.features, work, moves[i], before);
    if (weights.bias == nullptr) continue;
    *weights.bias -= share * moves[i];
    if (kAveraged) *weights.bias_sum -= before * (share * moves[i]);
  }
}

/// z_i = w · x_i + b
UNISONO_RACES_BY_DESIGN void margins_of(const DenseExamples& rows, const LinearWeights& weights, float* z) {
  for (Count i = 0; i < rows.count; ++i) {
    z[i] = dot(rows.values + i * rows.stride, weights.weights, rows.features);
    if (weights.bias != nullptr) z[i] += *weights.bias;
  }
}

/// The examples [first, first + count).
DenseExamples part_of(const DenseExamples& rows, Count first, Count count) {
  return {rows.values + first * rows.stride, rows.targets + first, count, rows.features, rows.stride};
}

template <MarginLoss kLoss, bool kPenalties, bool kAveraged>
void run(const DenseExamples& rows, const LinearWork& work, InPlaceSums& sums) {
  float moves[kMostMiniBatch];
  LinearStep step = work.step;
  const auto train = [&](Count first, Count count, float* z) {
    const DenseExamples now = part_of(rows, first, count);
    margins_of(now, work.weights, z);
    for (Count i = 0; i < now.count; ++i) {
      moves[i] = rate_of(work.step, first + i) * derivative<kLoss>(z[i], now.targets[i]);
    }
    step.updates_before = work.step.updates_before + static_cast<double>(first);
    steps<kPenalties, kAveraged>(now, {work.loss, step, work.weights}, moves);
  };
  for_each_mini_batch(0, rows.count, step.mini_batch, train, [&](Count first, Count count, const float* margins) {
    add_margins<kLoss>(margins, rows.targets + first, weights_from(work.step, first), count, sums);
  });
}

/// Calls what.operator()<whether there are penalties, whether weights are averaged>().
template <typename What>
void choose(const LinearWork& work, const What& what) {
  with_flag(work.step.l1 != 0.0F || work.step.l2 != 0.0F, [&]<bool kPenalties>() {
    with_flag(work.weights.weight_sums != nullptr,
              [&]<bool kAveraged>() { what.template operator()<kPenalties, kAveraged>(); });
  });
}

void linear_dense(const DenseExamples& rows, const LinearWork& work, InPlaceSums& sums) {
  with_loss(work.loss, [&]<MarginLoss kLoss>() {
    choose(work, [&]<bool kPenalties, bool kAveraged>() { run<kLoss, kPenalties, kAveraged>(rows, work, sums); });
  });
}

void dense_part_steps(const DenseExamples& rows, const LinearWork& work, const float* moves) {
  choose(work, [&]<bool kPenalties, bool kAveraged>() { steps<kPenalties, kAveraged>(rows, work, moves); });
}

}  // namespace

void add_linear_dense(Loops& loops) {
  loops.in_place.linear_dense = linear_dense;
  loops.in_place.dense_part_margins = margins_of;
  loops.in_place.dense_part_steps = dense_part_steps;
}

// Contiguous rows: margins with one θ, and the sum of rows times their derivatives, eight at a time. Memory binds, 4
// bytes a value. The first loop reads the rows one after the other (25 GB/s; four at a time, or prefetching there: 10
// to 16); the second one finds them in the first cache, and prefetches those of the next chunk (a tenth faster).

namespace {

constexpr Count kShort = 64;  ///< features; rows with fewer are added up four at a time

/// The sums of four registers' lanes.
__attribute__((always_inline)) inline void store_totals(const Vector* sums, float bias, float* to) {
  Vector totals[1];
  add_lanes<4>(sums, totals);
  for (Count r = 0; r < 4; ++r) to[r] = bias + totals[0][r];
}

/// z (and u) of four rows from x on.
template <bool kTwo>
__attribute__((always_inline)) inline void four_margins(const float* x, Count n, const MarginVector& w,
                                                        const MarginVector& v, float* z, float* u) {
  Vector of_w[4] = {}, of_v[4] = {};
  for (Count j = 0; j < n; j += kLanes) {
    const Count count = n - j < kLanes ? n - j : kLanes;
    const Vector weights = load_first(w.weights + j, count);
    const Vector direction = kTwo ? load_first(v.weights + j, count) : Vector{};
#pragma GCC unroll 4
    for (Count r = 0; r < 4; ++r) {
      const Vector values = load_first(x + r * n + j, count);
      of_w[r] += values * weights;
      if (kTwo) of_v[r] += values * direction;
    }
  }
  store_totals(of_w, w.bias, z);
  if (kTwo) store_totals(of_v, v.bias, u);
}

template <bool kTwo>
__attribute__((always_inline)) inline void one_margin(const float* x, Count n, const MarginVector& w,
                                                      const MarginVector& v, float* z, float* u) {
  Vector of_w[2] = {}, of_v[2] = {};
  Count j = 0;
  for (; j + 2 * kLanes <= n; j += 2 * kLanes) {
#pragma GCC unroll 2
    for (Count i = 0; i < 2; ++i) {
      const Count at = j + i * kLanes;
      const Vector values = load(x + at);
      of_w[i] += values * load(w.weights + at);
      if (kTwo) of_v[i] += values * load(v.weights + at);
    }
  }
  for (; j < n; j += kLanes) {
    const Count count = n - j < kLanes ? n - j : kLanes;
    const Vector values = load_first(x + j, count);
    of_w[0] += values * load_first(w.weights + j, count);
    if (kTwo) of_v[0] += values * load_first(v.weights + j, count);
  }
  *z = w.bias + add_all_lanes(of_w[0] + of_w[1])[0];
  if (kTwo) *u = v.bias + add_all_lanes(of_v[0] + of_v[1])[0];
}

template <bool kTwo>
void margins_of(const DenseExamples& rows, const MarginVector& w, const MarginVector& v, float* z, float* u) {
  const Count n = rows.features;
  Count i = 0;
  if (n < kShort) {
    for (; i + 4 <= rows.count; i += 4) four_margins<kTwo>(rows.values + i * n, n, w, v, z + i, kTwo ? u + i : nullptr);
  }
  for (; i < rows.count; ++i) one_margin<kTwo>(rows.values + i * n, n, w, v, z + i, kTwo ? u + i : nullptr);
}

void dense_margins(const DenseExamples& rows, const MarginVector& w, const MarginVector& v, float* z, float* u) {
  (v.weights != nullptr ? margins_of<true> : margins_of<false>)(rows, w, v, z, u);
}

/// g += Σ d_r x_r over kRows rows from x on. Prefetches the rows that lie `ahead` floats behind them.
template <Count kRows>
__attribute__((always_inline)) inline void add_of(const float* x, Count n, const float* d, float* g, Count ahead) {
  Vector slopes[kRows];
  for (Count r = 0; r < kRows; ++r) slopes[r] = broadcast(d[r]);
  Count j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    Vector sum = load(g + j);
#pragma GCC unroll 8
    for (Count r = 0; r < kRows; ++r) {
      sum += slopes[r] * load(x + r * n + j);
      __builtin_prefetch(x + r * n + j + ahead);
    }
    store(g + j, sum);
  }
  if (j == n) return;
  Vector sum = load_first(g + j, n - j);
  for (Count r = 0; r < kRows; ++r) sum += slopes[r] * load_first(x + r * n + j, n - j);
  store_first(g + j, sum, n - j);
}

void dense_add(const DenseExamples& rows, const float* d, float* g) {
  const Count n = rows.features;
  Count i = 0;
  const Count ahead = rows.count * n;
  for (; i + 8 <= rows.count; i += 8) add_of<8>(rows.values + i * n, n, d + i, g, ahead);
  for (; i < rows.count; ++i) add_of<1>(rows.values + i * n, n, d + i, g, ahead);
}

}  // namespace

void add_linear_dense_pass(Loops& loops) {
  loops.linear.dense_margins = dense_margins;
  loops.linear.dense_add = dense_add;
}

}  // namespace unisono::kernels::cpu::UNISONO_ISA
