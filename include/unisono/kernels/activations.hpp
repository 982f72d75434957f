#pragma once

#include <cstddef>
#include <vector>

#include "unisono/kernels/specs.hpp"
#include "unisono/tensor/features.hpp"

namespace unisono::kernels {

/// How a device keeps activations and parameters.
///
/// Activations of a batch live in buffers of `activation_size(extent, batch)` floats whose inner layout is the device's
/// own affair: only its kernels read or write them.
class Activations {
 public:
  virtual ~Activations() = default;

  /// Floats of a batch of activations, padding included.
  virtual Index activation_size(const Extent& extent, Index batch) const = 0;
  /// Stored order of canonical [O, C, H, W], see Block::axes.
  virtual std::vector<int> dense_weight_axes() const = 0;
  /// Stored order of canonical [O, I / groups, KH, KW].
  virtual std::vector<int> convolution_weight_axes() const = 0;
  /// Stored order of canonical [C, H, W]: parameters with one value an element of an activation.
  virtual std::vector<int> feature_axes() const = 0;

  /// Before the first kernel of a forward pass: its products, and those of the backward pass, read parameters in here,
  /// which nobody changes until then.
  virtual void begin_pass(View /*parameters*/) {}
  /// x = values. \param values [batch, C, H, W] row-major, in plain memory
  virtual void load(const Extent& extent, Index batch, View values, MutableView x) = 0;
  /// values = x. Waits. \param values [batch, C, H, W] row-major, in plain memory
  virtual void store(const Extent& extent, Index batch, View x, MutableView values) = 0;
  /// Keeps a copy of a set's features, as `load` would be given them, and makes inputs of them itself; the same answer
  /// for the same rows. Null: it does not. \pre the rows stay as long as the device's kernels
  virtual KeptFeatures* keep(const StoredFeatures& /*features*/) { return nullptr; }
  /// Bytes of all that it keeps.
  virtual std::size_t kept_bytes() const { return 0; }
};

}  // namespace unisono::kernels
