#pragma once

#include "cpu/loops_isa/vector.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {

/// means[i][lane] = the mean over the elements of the i-th sum that `add` adds to: runs of 32 in float, these in
/// double. A run is read for all lanes at a time: 8 KiB, contiguous. \param add called as add(sums, element, lane)
template <int kSums, typename Add>
static inline void means_of(const Columns& columns, float (*means)[kMaximumLanes], const Add& add) {
  constexpr Count kRun = 32;
  double totals[kSums][kMaximumLanes] = {};
  for (Count first = 0; first < columns.elements; first += kRun) {
    const Count last = columns.elements - first < kRun ? columns.elements : first + kRun;
    for (Count lane = 0; lane < columns.lanes; lane += kLanes) {
      Vector sums[kSums] = {};
      for (Count e = first; e < last; ++e) add(sums, e, lane);
      for (int sum = 0; sum < kSums; ++sum) {
        for (Count i = 0; i < kLanes; ++i) totals[sum][lane + i] += static_cast<double>(sums[sum][i]);
      }
    }
  }
  for (int sum = 0; sum < kSums; ++sum) {
    for (Count lane = 0; lane < columns.lanes; ++lane) {
      means[sum][lane] = static_cast<float>(totals[sum][lane] / static_cast<double>(columns.elements));
    }
  }
}

}  // namespace unisono::kernels::cpu::UNISONO_ISA
