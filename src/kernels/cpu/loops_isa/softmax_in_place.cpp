// Softmax regression: a feature's weights for all classes are one row W_j. An example adds up rows, z = b + Σ_j x_j
// W_j, and steps by its gradient p − 1[label], times x_j, on each of them. 4 K flops per value; 4 K bytes of θ are read
// and written. Columns behind the K classes stay 0, and so does p there.
#include "cpu/loops_isa/margin_loss.hpp"
#include "cpu/loops_isa/math.hpp"
#include "cpu/loops_isa/sums.hpp"
#include "cpu/loops_isa/table.hpp"
#include "cpu/races.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

constexpr Count kBlock = 256;          ///< examples whose losses are added up together
constexpr Count kAhead = 32;           ///< how many values ahead rows are prefetched
constexpr Count kInFirstCache = 8192;  ///< so many weights need no prefetch

enum class Kind { dense, ones, values };

template <Kind kKind>
__attribute__((always_inline)) inline ValueRange row_of(const SparseExamples& rows, Count i) {
  if (kKind == Kind::dense) return {i * rows.width, (i + 1) * rows.width};
  return {static_cast<Count>(rows.offsets[i]), static_cast<Count>(rows.offsets[i + 1])};
}

template <Kind kKind>
__attribute__((always_inline)) inline Count column_of(const SparseExamples& rows, ValueRange row, Count k) {
  return kKind == Kind::dense ? k - row.begin : static_cast<Count>(rows.columns[k]);
}

template <Kind kKind>
__attribute__((always_inline)) inline float value_of(const SparseExamples& rows, Count k) {
  return kKind == Kind::ones ? 1.0F : rows.values[k];
}

void fetch(const SparseExamples& rows, ValueRange row, Count last, const RowMatrix& matrix) {
  const Count end = row.end + kAhead < last ? row.end + kAhead : last;
  for (Count k = row.begin + kAhead; k < end; ++k) {
    const float* const weights = matrix.values + rows.columns[k] * matrix.stride;
    for (Count at = 0; at < matrix.width; at += 16) __builtin_prefetch(weights + at, 1);
  }
}

/// z = b + Σ_j x_j W_j for so many registers from column `at` on; even and odd values apart.
template <Kind kKind, Count registers>
UNISONO_RACES_BY_DESIGN void add_rows(const SparseExamples& rows, ValueRange row, const SoftmaxWeights& weights,
                                      Count at, float* z) {
  const RowMatrix& matrix = weights.weights;
  Vector even[registers] = {}, odd[registers] = {};
  const auto add = [&](Vector(&sums)[registers], Count k) __attribute__((always_inline, no_sanitize("thread"))) {
    const float* const w = matrix.values + column_of<kKind>(rows, row, k) * matrix.stride + at;
    const Vector x = broadcast(value_of<kKind>(rows, k));
#pragma GCC unroll 4
    for (Count r = 0; r < registers; ++r) sums[r] += x * load(w + r * kLanes);
  };
  if (weights.bias != nullptr) {
    for (Count r = 0; r < registers; ++r) even[r] = load(weights.bias + at + r * kLanes);
  }
  Count k = row.begin;
  for (; k + 2 <= row.end; k += 2) {
    add(even, k);
    add(odd, k + 1);
  }
  if (k < row.end) add(even, k);
  for (Count r = 0; r < registers; ++r) store(z + at + r * kLanes, even[r] + odd[r]);
}

template <Kind kKind>
void find_margins(const SparseExamples& rows, ValueRange row, const SoftmaxWeights& weights, float* z) {
  const Count width = weights.weights.width;
  Count at = 0;
  for (; at + 4 * kLanes <= width; at += 4 * kLanes) add_rows<kKind, 4>(rows, row, weights, at, z);
  for (; at + 2 * kLanes <= width; at += 2 * kLanes) add_rows<kKind, 2>(rows, row, weights, at, z);
  for (; at < width; at += kLanes) add_rows<kKind, 1>(rows, row, weights, at, z);
}

/// Losses of a block: −ln p[label] = ln Σ exp(z − largest) − (z[label] − largest)
struct Losses {
  float exponentials[kBlock], labels[kBlock];
};

/// z ← rate · (softmax(z) − 1[label]) in its first K columns, 0 behind them. \return whether the label's is the largest
/// (of equals: the first; a NaN is larger than all)
bool find_gradient(float* z, Count classes, Count width, Count label, float rate, Count i, Losses& losses) {
  float largest = z[0];
  std::int32_t before = 0;
  const float wanted = z[label];
  for (Count k = 1; k < classes; ++k) largest = z[k] > largest ? z[k] : largest;
  for (Count k = 0; k < classes; ++k) before += z[k] < wanted || (z[k] == wanted && k >= label) ? 0 : 1;
#pragma omp simd
  for (Count k = 0; k < width; ++k) z[k] = k < classes ? exponential(z[k] - largest) : 0.0F;
  Vector lanes{};
  for (Count k = 0; k < width; k += kLanes) lanes += load(z + k);
  const float sum = add_all_lanes(lanes)[0], share = rate / sum;
  for (Count k = 0; k < width; k += kLanes) store(z + k, share * load(z + k));
  z[label] -= rate;
  losses.exponentials[i] = sum;
  losses.labels[i] = wanted - largest;
  return before == 0;
}

template <bool kWeighted>
double loss_with(const Losses& losses, const float* weights, Count count) {
  double sums[kLanes] = {};
  for (Count start = 0; start < count; start += kLanes) {
    const Count lanes = count - start < kLanes ? count - start : kLanes;
#pragma omp simd
    for (Count lane = 0; lane < lanes; ++lane) {
      const Count i = start + lane;
      const double own = static_cast<double>(natural_logarithm(losses.exponentials[i]) - losses.labels[i]);
      sums[lane] += kWeighted ? static_cast<double>(weights[i]) * own : own;
    }
  }
  double sum = 0;
  for (double lane : sums) sum += lane;
  return sum;
}

/// \param weights null: all are 1
double loss_of(const Losses& losses, const float* weights, Count count) {
  return weights == nullptr ? loss_with<false>(losses, weights, count) : loss_with<true>(losses, weights, count);
}

/// A row of weights after its step: w ← w − x · gradient, shrunk. \param sums u, not null where kAveraged
template <bool kPenalties, bool kAveraged>
UNISONO_RACES_BY_DESIGN void move(float* w, float* sums, const float* gradient, float x, Count width,
                                  const Shrinking& by, float spread, float before) {
#pragma omp simd
  for (Count k = 0; k < width; ++k) {
    const float old = w[k], mine = x * gradient[k];
    const float fresh = kPenalties ? shrunk(old, mine, by, spread) : old - mine;
    w[k] = fresh;
    if (kAveraged) sums[k] += before * (fresh - old);
  }
}

template <Kind kKind, bool kPenalties, bool kAveraged>
void update(const SparseExamples& rows, ValueRange row, const SoftmaxWork& work, float before) {
  const RowMatrix &matrix = work.weights.weights, &averages = work.weights.weight_sums;
  const Shrinking by(work.step);
  for (Count k = row.begin; k < row.end; ++k) {
    const Count j = column_of<kKind>(rows, row, k);
    float* const sums = kAveraged ? averages.values + j * averages.stride : nullptr;
    move<kPenalties, kAveraged>(matrix.values + j * matrix.stride, sums, work.scratch, value_of<kKind>(rows, k),
                                matrix.width, by, kPenalties ? work.step.spread[j] : 0.0F, before);
  }
  if (work.weights.bias == nullptr) return;
  move<false, kAveraged>(work.weights.bias, work.weights.bias_sum, work.scratch, 1.0F, matrix.width, by, 0.0F, before);
}

template <Kind kKind, bool kPenalties, bool kAveraged>
void run(const SparseExamples& rows, const SoftmaxWork& work, InPlaceSums& sums) {
  const SoftmaxWeights& weights = work.weights;
  const Count width = weights.weights.width;
  const bool far = kKind != Kind::dense && rows.width * width > kInFirstCache;
  const Count last_value = row_of<kKind>(rows, rows.last - 1).end;
  Losses losses;
  for (Count start = rows.first; start < rows.last; start += kBlock) {
    const Count count = rows.last - start < kBlock ? rows.last - start : kBlock;
    for (Count i = 0; i < count; ++i) {
      const ValueRange row = row_of<kKind>(rows, start + i);
      if (far) fetch(rows, row, last_value, weights.weights);
      find_margins<kKind>(rows, row, weights, work.scratch);
      const auto label = static_cast<Count>(rows.targets[start + i]);
      const float rate = rate_of(work.step, start + i);
      const bool correct = find_gradient(work.scratch, weights.classes, width, label, rate, i, losses);
      sums.correct += correct ? 1 : 0;
      const auto before = static_cast<float>(work.step.updates_before + static_cast<double>(start + i - rows.first));
      update<kKind, kPenalties, kAveraged>(rows, row, work, before);
    }
    sums.loss += loss_of(losses, work.step.weights == nullptr ? nullptr : work.step.weights + start, count);
  }
}

template <Kind kKind>
void choose(const SparseExamples& rows, const SoftmaxWork& work, InPlaceSums& sums) {
  const bool penalties = work.step.l1 != 0.0F || work.step.l2 != 0.0F;
  if (work.weights.weight_sums.values != nullptr) {
    (penalties ? run<kKind, true, true> : run<kKind, false, true>)(rows, work, sums);
  } else {
    (penalties ? run<kKind, true, false> : run<kKind, false, false>)(rows, work, sums);
  }
}

void softmax(const SparseExamples& rows, const SoftmaxWork& work, InPlaceSums& sums) {
  if (rows.first >= rows.last) return;
  if (rows.offsets == nullptr) return choose<Kind::dense>(rows, work, sums);
  (rows.values != nullptr ? choose<Kind::values> : choose<Kind::ones>)(rows, work, sums);
}

void softmax_margins(const SparseExamples& rows, const SoftmaxWeights& weights, float* scratch, float* margins) {
  for (Count i = rows.first; i < rows.last; ++i) {
    const ValueRange row = row_of<Kind::values>(rows, i);
    (rows.values != nullptr ? find_margins<Kind::values> : find_margins<Kind::ones>)(rows, row, weights, scratch);
    for (Count k = 0; k < weights.classes; ++k) *margins++ = scratch[k];
  }
}

}  // namespace

void add_softmax_in_place(Loops& loops) {
  loops.in_place.softmax = softmax;
  loops.in_place.softmax_margins = softmax_margins;
}

}  // namespace unisono::kernels::cpu::UNISONO_ISA
