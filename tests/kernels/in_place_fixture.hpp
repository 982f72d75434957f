#pragma once

#include "cpu/instruction_set.hpp"
#include "cpu_fixture.hpp"
#include "reference_in_place.hpp"

// What tests of in-place kernels share: matrices with gaps between their rows, every instruction set, and bounds on
// rounding.

namespace unisono::kernels::cpu {

/// Calls check(kernels) with those of every instruction set.
template <typename Check>
void with_all_kernels(const Check& check) {
  for (InstructionSet set : available_instruction_sets()) {
    const auto kernels = in_place_kernels_for(set);
    INFO(kernels->name());
    check(*kernels);
  }
}

/// A RowMatrix of `used` floats a row in [−size, size), zeros up to a multiple of 16, then a gap that nobody may write.
class TestMatrix {
 public:
  static constexpr float kGap = 12345;

  TestMatrix(Index rows, Index used, std::uint64_t stream, float size = 0.5F, Index gap = 16)
      : rows_(rows), used_(used), width_((used + 15) / 16 * 16), stride_(width_ + gap), values_(rows * stride_) {
    const Floats random = random_floats(rows * used, stream, -size, size);
    for (Index i = 0; i < rows; ++i) {
      std::copy_n(random.begin() + i * used, used, row(i));
      std::fill_n(row(i) + width_, gap, kGap);
    }
  }

  RowMatrix view() { return {values_.data(), stride_, width_}; }
  float* row(Index i) { return values_.data() + i * stride_; }
  Index rows() const { return rows_; }
  Index used() const { return used_; }

  /// What is in use, row by row.
  Floats values() {
    Floats result;
    for (Index i = 0; i < rows_; ++i) result.insert(result.end(), row(i), row(i) + used_);
    return result;
  }
  reference::Matrix widened() { return {widen(values()), static_cast<std::size_t>(used_)}; }

  /// No value of the padding and of the gaps has changed.
  bool tidy() {
    bool result = true;
    for (Index i = 0; i < rows_; ++i) {
      for (Index j = used_; j < stride_; ++j) result &= row(i)[j] == (j < width_ ? 0.0F : kGap);
    }
    return result;
  }

 private:
  Index rows_, used_, width_, stride_;
  Buffer values_;
};

inline bool equal_sums(const InPlaceSums& a, const InPlaceSums& b) {
  return a.loss == b.loss && a.examples == b.examples && a.correct == b.correct && a.squared_error == b.squared_error &&
         a.absolute_error == b.absolute_error;
}

}  // namespace unisono::kernels::cpu
