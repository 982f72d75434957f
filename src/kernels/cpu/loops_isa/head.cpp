#include "cpu/loops_isa/table.hpp"
#include "cpu/loops_isa/vector.hpp"
#include "cpu/loops_isa/vector_math.hpp"

// The softmax of a language model's head, some classes at a time (cpu/head.cpp). Lanes are rows.

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

constexpr float kLog2E = 0x1.715476p0F;
constexpr Count kRun = 32;  ///< classes that are summed in float; sums of runs are in double

Vector largest_of(const Columns& columns, const float* z) {
  Vector largest[2] = {load(z), load(z)};
  Count k = 0;
  for (; k + 2 <= columns.elements; k += 2) {
    largest[0] = at_least(largest[0], load(z + k * columns.stride));
    largest[1] = at_least(largest[1], load(z + (k + 1) * columns.stride));
  }
  if (k < columns.elements) largest[0] = at_least(largest[0], load(z + k * columns.stride));
  return at_least(largest[0], largest[1]);
}

inline void add_to(double* totals, Vector sum) {
  for (Count i = 0; i < kLanes; ++i) totals[i] += static_cast<double>(sum[i]);
}

void sums(const Columns& columns, const float* z, PartialSoftmax& sums) {
  for (Count lane = 0; lane < columns.lanes; lane += kLanes) {
    const Vector largest = largest_of(columns, z + lane);
    store(sums.largest + lane, largest);
    for (Count i = 0; i < kLanes; ++i) sums.exponentials[lane + i] = sums.logits[lane + i] = 0;
    for (Count first = 0; first < columns.elements; first += kRun) {
      const Count last = columns.elements - first < kRun ? columns.elements : first + kRun;
      Vector exponentials{}, logits{};
      for (Count k = first; k < last; ++k) {
        const Vector logit = load(z + k * columns.stride + lane);
        exponentials += power_of_two(logit - largest, kLog2E);
        logits += logit;
      }
      add_to(sums.exponentials + lane, exponentials);
      add_to(sums.logits + lane, logits);
    }
  }
}

/// 1 where a logit comes before the label's, else 0. A NaN comes before every label.
inline Integers comes_before(Vector logit, Vector label, Integers labels, std::int32_t k) {
  return ((logit < label) | ((logit == label) & (labels <= k))) + 1;
}

/// Row by row, in the order of memory: the logits come from a far cache.
void count(const Columns& columns, Count first, const float* z, const HeadLanes& lanes, std::int32_t* before) {
  for (Count k = 0; k < columns.elements; ++k) {
    for (Count lane = 0; lane < columns.lanes; lane += kLanes) {
      const Integers sum =
          load(before + lane) + comes_before(load(z + k * columns.stride + lane), load(lanes.label + lane),
                                             load(lanes.labels + lane), static_cast<std::int32_t>(first + k));
      __builtin_memcpy(before + lane, &sum, sizeof sum);
    }
  }
}

void gradient(const Columns& columns, Count first, const HeadLanes& lanes, float* z, std::int32_t* before) {
  for (Count lane = 0; lane < columns.lanes; lane += kLanes) {
    const Vector largest = load(lanes.largest + lane), share = load(lanes.share + lane);
    const Vector spread = load(lanes.spread + lane), label = load(lanes.label + lane);
    const Integers labels = load(lanes.labels + lane), labelled = labels >= 0;
    Integers sum = load(before + lane);
    for (Count k = 0; k < columns.elements; ++k) {
      float* const at = z + k * columns.stride + lane;
      const Vector logit = load(at);
      sum += comes_before(logit, label, labels, static_cast<std::int32_t>(first + k));
      store(at, keep(labelled, share * power_of_two(logit - largest, kLog2E) - spread));
    }
    __builtin_memcpy(before + lane, &sum, sizeof sum);
  }
}

}  // namespace

void add_head(Loops& loops) { loops.head = {sums, count, gradient}; }

}  // namespace unisono::kernels::cpu::UNISONO_ISA
