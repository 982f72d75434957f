#include "cpu/loops_isa/table.hpp"
#include "cpu/loops_isa/vector.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

/// One channel of dy: masks it where there is a y, and adds lane l to sums[l mod 16].
template <bool masked, bool summed>
inline void channel(Count width, const float* y, float* dy, float* sums) {
  constexpr Count kSums = 16 / kLanes;  // registers
  Vector parts[kSums] = {};
  for (Count lane = 0; lane < width; lane += 16) {
#pragma GCC unroll 4
    for (Count part = 0; part < kSums; ++part) {
      const Count at = lane + part * kLanes;
      Vector value = load(dy + at);
      if (masked) {
        value = load(y + at) > 0.0F ? value : Vector{};
        store(dy + at, value);
      }
      parts[part] += value;
    }
  }
  if (!summed) return;
#pragma GCC unroll 4
  for (Count part = 0; part < kSums; ++part) store(sums + part * kLanes, load(sums + part * kLanes) + parts[part]);
}

template <bool masked, bool summed>
void channels(Count count, Count width, const float* y, float* dy, float* sums) {
  for (Count c = 0; c < count; ++c) {
    channel<masked, summed>(width, masked ? y + c * width : nullptr, dy + c * width, summed ? sums + c * 16 : nullptr);
  }
}

void mask_and_sum(Count count, Count width, const float* y, float* dy, float* sums) {
  if (y != nullptr && sums != nullptr) {
    channels<true, true>(count, width, y, dy, sums);
  } else if (y != nullptr) {
    channels<true, false>(count, width, y, dy, sums);
  } else if (sums != nullptr) {
    channels<false, true>(count, width, y, dy, sums);
  }
}

}  // namespace

void add_mask(Loops& loops) { loops.mask_and_sum = mask_and_sum; }

}  // namespace unisono::kernels::cpu::UNISONO_ISA
