#pragma once

#include <cstddef>
#include <vector>

#include "unisono/kernels/specs.hpp"
#include "unisono/tensor/features.hpp"

namespace unisono::kernels {

/// How a device stores activations and parameters.
///
/// Activations of a batch live in buffers of `activation_size(extent, batch)` floats. Their layout differs between
/// devices: only the device's kernels read or write them.
class Activations {
 public:
  virtual ~Activations() = default;

  /// Floats of a batch of activations, padding included.
  virtual Index activation_size(const Extent& extent, Index batch) const = 0;
  /// Stored order of dense weights, canonical [O, C, H, W]; see Block::axes.
  virtual std::vector<int> dense_weight_axes() const = 0;
  /// Stored order of convolution weights, canonical [O, I / groups, KH, KW].
  virtual std::vector<int> convolution_weight_axes() const = 0;
  /// Stored order of parameters with one value for each element of an example, canonical [C, H, W] (layer norm).
  virtual std::vector<int> feature_axes() const = 0;

  /// Call it before the first kernel of a forward pass, with the part of θ that the weights of this pass and of its
  /// backward pass are views into. These parameters must not change until the backward pass has ended.
  virtual void begin_pass(View /*parameters*/) {}
  /// No parameter changes from now on: what kernels make of weights may be kept from pass to pass.
  virtual void fix_parameters() {}
  /// x = values. \param values [batch, C, H, W] row-major, in plain memory
  virtual void load(const Extent& extent, Index batch, View values, MutableView x) = 0;
  /// values = x. Waits for the device. \param values [batch, C, H, W] row-major, in plain memory
  virtual void store(const Extent& extent, Index batch, View x, MutableView values) = 0;
  /// Keeps a copy of a data set's features on the device, which then computes a model's inputs from it. Returns the
  /// same copy for the same rows; null where it keeps none. \pre the rows outlive this object
  virtual KeptFeatures* keep(const StoredFeatures& /*features*/) { return nullptr; }
  /// Bytes of all features that are kept.
  virtual std::size_t kept_bytes() const { return 0; }
};

}  // namespace unisono::kernels
