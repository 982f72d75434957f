#pragma once

#include <span>

#include "unisono/kernels/compute_device.hpp"
#include "unisono/tensor/exact_sum.hpp"

namespace unisono::kernels {

/// Floats [first, last) of θ that an update rule treats alike; both are multiples of 16.
struct UpdateRange {
  Index first = 0, last = 0;
  bool decays = false;   ///< weight decay applies to it
  bool adapted = false;  ///< has a rate of its own (LARS, LAMB)
  bool operator==(const UpdateRange&) const = default;
};

/// Vector algebra on θ, g and optimizer state, in the device's memory; each function makes one pass over it. Sums are
/// made in double, in an order that depends only on the number of terms; on the CPU, sums of squares are exact, and
/// rounded as ExactSquares says.
class VectorKernels : public ComputeDevice {
 public:
  /// x = 0
  virtual void clear(MutableView x) = 0;
  /// y ← a x + b y; with b = 0 it does not matter what y held. y may be x.
  virtual void axpby(float a, View x, float b, MutableView y) = 0;
  /// Σ x y. Waits for the device. x may be y.
  virtual double dot(View x, View y) = 0;
  /// Σ x². Waits for the device.
  virtual double squared_norm(View x) = 0;
  /// norms[i] = Σ x² over ranges[i]. \param norms in the device's memory
  virtual void squared_norms(View x, std::span<const UpdateRange> ranges, std::span<double> norms) = 0;
  /// sums[i] += Σ x² over ranges[i], as this rank's share of a sum over ranks.
  /// \param exactly false: computed in doubles, see ExactSquares::add_sum
  /// \throws ConfigError on GPUs, which do not support a sharded θ yet
  virtual void sum_squares(View x, std::span<const UpdateRange> ranges, bool exactly, std::span<ExactSquares> sums);
};

}  // namespace unisono::kernels
