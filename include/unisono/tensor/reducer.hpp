#pragma once

#include <span>

#include "unisono/tensor/exact_sum.hpp"

namespace unisono {

/// Sums over all ranks that step together, for layers that need a statistic of the whole micro-batch. Values lie in the
/// memory that the layers work in, which may be a device's.
class Reducer {
 public:
  virtual ~Reducer() = default;

  /// values[i] ← Σ_r values_r[i]. Collective; every rank ends with the same bits.
  virtual void sum(std::span<double> values) = 0;
};

/// The sum over this rank alone.
class LocalReducer final : public Reducer {
 public:
  void sum(std::span<double>) override {}
};

/// Sums over all ranks that divide θ among them, for norms of what no rank holds all of.
class SquaresReducer {
 public:
  virtual ~SquaresReducer() = default;

  /// sums[i] ← Σ_r sums_r[i]. Collective; every rank ends with the same bits.
  virtual void sum(std::span<ExactSquares> sums) = 0;
};

}  // namespace unisono
