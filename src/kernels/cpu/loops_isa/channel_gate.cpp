#include "cpu/loops_isa/table.hpp"
#include "cpu/loops_isa/vector.hpp"

// Images whose channels are multiplied with a number each. A row is a pixel of an example, or of a block of examples,
// with all its channels, and so is the row of factors: in both layouts the same loops.

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

void scale(Count rows, Count n, const float* factors, const float* x, float* y) {
  for (Count row = 0; row < rows; ++row, x += n, y += n) {
    for_each_vector(n, [&](Count i, auto lanes) { lanes.put(y + i, lanes.get(x + i) * lanes.get(factors + i)); });
  }
}

/// Sums of 32 rows are added up first, so that rounding errors grow with rows / 32 + 32 at most.
void sums_of_products(Count rows, Count n, const float* x, const float* y, float* sums) {
  constexpr Count kRun = 32;
  for_each_vector(n, [&](Count i, auto lanes) {
    Vector sum{};
    for (Count first = 0; first < rows; first += kRun) {
      const Count last = rows - first < kRun ? rows : first + kRun;
      Vector run{};
      for (Count row = first; row < last; ++row) run += lanes.get(x + row * n + i) * lanes.get(y + row * n + i);
      sum += run;
    }
    lanes.put(sums + i, sum);
  });
}

}  // namespace

void add_channel_gate(Loops& loops) { loops.channel_gate = {scale, sums_of_products}; }

}  // namespace unisono::kernels::cpu::UNISONO_ISA
