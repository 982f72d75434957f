#pragma once

#include "unisono/kernels/in_place.hpp"

// The inner loops of models that are updated in place; see loops.hpp for what holds of all loops. Several threads run
// them on one θ without locks (races.hpp).

namespace unisono::cpu {

using Count = std::ptrdiff_t;

/// Words near each other, and what they are to predict, or to be predicted from.
struct Window {
  const std::int32_t* context = nullptr;  ///< [words]
  Count words = 0;                        ///< 1 … kMaximumWindow
  const std::int32_t* rows = nullptr;     ///< [outputs], distinct
  const float* targets = nullptr;         ///< [outputs]
  Count outputs = 0;                      ///< 1 … kMaximumOutputs
  float rate = 0;
  bool want_loss = false;
};

struct InPlaceLoops {
  /// The loss where it is wanted, else 0.
  double (*skip_gram)(const Window& window, const RowMatrix& inputs, const RowMatrix& outputs);

  /// Adds up the errors of `count` ratings.
  void (*factorize)(const SparseEntry* ratings, Count count, const FactorStep& step, const FactorRows& users,
                    const FactorRows& items, InPlaceSums& sums);
};

}  // namespace unisono::cpu
