#pragma once

#include <memory>
#include <span>

#include "unisono/kernels/specs.hpp"
#include "unisono/kernels/update_kernels.hpp"

namespace unisono::kernels {

/// A step of an update rule that a backward pass makes itself, from each piece of the gradient as soon as the piece is
/// final. The gradient of these weights is never stored.
class StepAtOnce {
 public:
  virtual ~StepAtOnce() = default;
  /// Makes the step of `count` floats of θ, from float `first` on, of which g is the gradient. Threads call it at the
  /// same time, for different floats.
  virtual void step(Index first, Index count, const float* g) const = 0;
  /// The vectors that `step` reads and writes: θ first.
  virtual std::span<const float* const> vectors() const = 0;
};

/// Steps inside of backward passes. CPUs have them.
class StepKernels {
 public:
  virtual ~StepKernels() = default;

  /// The steps of sgd_update and adam_update, with the same bits. All that is given must outlive them.
  virtual std::unique_ptr<StepAtOnce> sgd_at_once(const SgdStep& step, float gradient_scale,
                                                  std::span<const UpdateRange> ranges, MutableView theta,
                                                  MutableView velocity) = 0;
  virtual std::unique_ptr<StepAtOnce> adam_at_once(const AdamStep& step, float gradient_scale,
                                                   std::span<const UpdateRange> ranges, MutableView theta,
                                                   MutableView first, MutableView second) = 0;

  /// Whether dense_step exists for a layer.
  virtual bool has_dense_step(const DenseSpec& spec) const = 0;
  /// Makes the step of a dense layer's weights, with the bits of dense_backward's dw = dyᵀ x. \param dy as
  /// dense_backward has left it, which is called before, without dw \param first of W in θ, in floats
  virtual void dense_step(const DenseSpec& spec, Index batch, View x, View dy, Index first, const StepAtOnce& step) = 0;
};

}  // namespace unisono::kernels
