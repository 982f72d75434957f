#pragma once

#include <span>

#include "unisono/tensor/exact_sum.hpp"

namespace unisono {

/// Sums over all ranks that compute a step together, for layers that need a statistic of the whole micro-batch. The
/// values lie in the backend's memory, which may be a device's.
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

/// Sums over all ranks among which θ is sharded, for norms of vectors that no rank holds as a whole.
class SquaresReducer {
 public:
  virtual ~SquaresReducer() = default;

  /// sums[i] ← Σ_r sums_r[i]. Collective; every rank ends with the same bits.
  virtual void sum(std::span<ExactSquares> sums) = 0;
  /// Σ_r sum_r in doubles, of ranks whose devices do not sum exactly. Collective, likewise.
  virtual double sum(double sum) = 0;
};

}  // namespace unisono
