#pragma once

#include <span>

#include "unisono/kernels/compute_device.hpp"
#include "unisono/tensor/exact_sum.hpp"

namespace unisono::kernels {

/// Floats [first, last) of θ that an update rule treats alike; both are multiples of 16.
struct UpdateRange {
  Index first = 0, last = 0;
  bool decays = false;
  bool adapted = false;  ///< has a rate of its own (LARS, LAMB)
  bool operator==(const UpdateRange&) const = default;
};

/// Vector algebra on θ, g and optimizer state, in the device's memory; one pass over it each. Sums are made in double,
/// in an order that depends on the number of terms alone; on the CPU, those of squares are the exact ones, rounded as
/// ExactSquares says.
class VectorKernels : public ComputeDevice {
 public:
  /// x = 0
  virtual void clear(MutableView x) = 0;
  /// y ← a x + b y; with b = 0 it does not matter what y held. y may be x.
  virtual void axpby(float a, View x, float b, MutableView y) = 0;
  /// Σ x y. Waits. x may be y.
  virtual double dot(View x, View y) = 0;
  /// Σ x². Waits.
  virtual double squared_norm(View x) = 0;
  /// norms[i] = Σ x² over ranges[i], for as many. \param norms in the device's memory
  virtual void squared_norms(View x, std::span<const UpdateRange> ranges, std::span<double> norms) = 0;
  /// sums[i] += Σ x² over ranges[i], which other ranks add the rest to. \param exactly else as sums made in doubles
  /// \throws ConfigError on devices, among which θ is not divided yet
  virtual void sum_squares(View x, std::span<const UpdateRange> ranges, bool exactly, std::span<ExactSquares> sums);
};

}  // namespace unisono::kernels
