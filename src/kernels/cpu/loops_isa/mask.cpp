#include "cpu/loops_isa/table.hpp"
#include "cpu/loops_isa/vector.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

/// One channel of dy: masks it where there is a y, and adds lane l to sums[l mod 16].
template <bool masked, bool summed>
inline void channel(Count width, const float* y, float* dy, float* sums) {
  constexpr Count kSums = 16 / kLanes;  // registers
  Vector parts[kSums] = {};
  for (Count first = 0; first < width; first += 16) {
#pragma GCC unroll 4
    for (Count part = 0; part < kSums; ++part) {
      const Count at = first + part * kLanes;
      if (at >= width) break;  // a width of 8
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

/// Some channels, at most kLanes, of all rows. Runs of kRun rows are added up first, so that rounding errors grow with
/// kRun + rows / kRun at most.
template <bool masked, typename Lanes>
void rows_of(Count rows, Count channels, Lanes lanes, const float* y, float* dy, float* sums) {
  constexpr Count kRun = 64;
  Vector sum{};
  for (Count first = 0; first < rows; first += kRun) {
    const Count last = rows - first < kRun ? rows : first + kRun;
    Vector run{};
    for (Count row = first; row < last; ++row) {
      float* const at = dy + row * channels;
      Vector value = lanes.get(at);
      if (masked) {
        value = lanes.get(y + row * channels) > 0.0F ? value : Vector{};
        lanes.put(at, value);
      }
      run += value;
    }
    sum += run;
  }
  if (sums != nullptr) lanes.put(sums, lanes.get(sums) + sum);
}

void mask_and_sum_rows(Count rows, Count channels, const float* y, float* dy, float* sums) {
  for_each_vector(channels, [&](Count c, auto lanes) {
    float* const sum = sums == nullptr ? nullptr : sums + c;
    if (y != nullptr) {
      rows_of<true>(rows, channels, lanes, y + c, dy + c, sum);
    } else {
      rows_of<false>(rows, channels, lanes, nullptr, dy + c, sum);
    }
  });
}

}  // namespace

void add_mask(Loops& loops) {
  loops.mask_and_sum = mask_and_sum;
  loops.mask_and_sum_rows = mask_and_sum_rows;
}

}  // namespace unisono::kernels::cpu::UNISONO_ISA
