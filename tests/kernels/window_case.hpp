#pragma once

#include "in_place_fixture.hpp"

namespace unisono::kernels::cpu {

using Words = std::vector<std::int32_t>;

inline constexpr float kRate = 0.1F;

/// Inputs and outputs of some words, and one window.
struct WindowCase {
  Words context, outputs;
  Floats targets;
  TestMatrix x, y;
  Words next_context, next_rows;  ///< of the next window

  WindowCase(Words words, Index outputs_count, Index width)
      : context(std::move(words)), x(70, width, 1), y(70, width, 2) {
    for (Index o = 0; o < outputs_count; ++o) {
      outputs.push_back(static_cast<std::int32_t>(69 - o));
      targets.push_back(o % 3 == 0 ? 1.0F : 0.0F);
    }
  }
  OutputWords wanted() const { return {outputs, targets, next_context, next_rows}; }
  InPlaceSums skip_gram(const InPlaceKernels& kernels, bool want_loss) {
    InPlaceSums sums;
    kernels.skip_gram(context, wanted(), kRate, x.view(), y.view(), want_loss, sums);
    return sums;
  }
  InPlaceSums cbow(const InPlaceKernels& kernels, bool want_loss) {
    InPlaceSums sums;
    kernels.cbow(context, wanted(), kRate, x.view(), y.view(), want_loss, sums);
    return sums;
  }
};

inline Words first_words(Index count) {
  Words words;
  for (Index i = 0; i < count; ++i) words.push_back(static_cast<std::int32_t>(i));
  return words;
}

}  // namespace unisono::kernels::cpu
