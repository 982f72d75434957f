#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "unisono/kernels/backend.hpp"
#include "unisono/tensor/layout.hpp"
#include "unisono/tensor/reducer.hpp"

namespace unisono::nn {

/// The form of one example between two layers.
struct Shape {
  kernels::Extent extent;
  bool flat = false;  ///< `flatten` has marked it as a row of values; in memory nothing has changed
  bool is_row() const { return flat || extent.height * extent.width == 1; }
  bool operator==(const Shape&) const = default;
};

/// "20×24×24", or "800" for a row of values.
std::string text_of(const Shape& shape);

/// What a pass over one micro-batch needs beside its tensors, which lie in the backend's memory. Borrowed.
struct Pass {
  kernels::Backend& backend;
  Reducer& reducer;        ///< of doubles in the backend's memory
  View parameters;         ///< θ, from `first_parameter` on: all that the pass' layers have, or more
  MutableView statistics;  ///< running statistics, from `first_statistic` on: updated where training, else read
  bool training = false;
  Index batch = 0;                          ///< B, this rank's examples; may be 0
  std::span<const std::uint64_t> examples;  ///< [B] their indices in the set, where training
  std::int64_t epoch = 0;
  std::uint64_t seed = 0;                          ///< of dropout masks
  Index first_parameter = 0, first_statistic = 0;  ///< floats of the whole vectors that lie before the views
  /// False: running statistics stay as they are, as where activations are made anew that a backward pass needs again.
  bool updates_statistics = true;
  /// [Piece::moments_size()], the backend's memory, or empty. Where training, batch statistics are left here in place
  /// of updating the running ones: see Piece::apply_moments.
  MutableView moments = {};

  /// A block of θ, of the running statistics, or of a vector g that is held as θ is; empty where g is.
  View parameter(const Block& block) const { return parameters.subspan(begin(block, first_parameter), size(block)); }
  MutableView statistic(const Block& block) const {
    return statistics.subspan(begin(block, first_statistic), size(block));
  }
  MutableView gradient(MutableView g, const Block& block) const {
    return g.empty() ? g : g.subspan(begin(block, first_parameter), size(block));
  }

 private:
  static std::size_t begin(const Block& block, Index first) { return static_cast<std::size_t>(block.offset - first); }
  static std::size_t size(const Block& block) { return static_cast<std::size_t>(block.stored_size()); }
};

struct ForwardViews {
  View x;            ///< [B] examples of the input's extent
  View residual;     ///< of y's extent; empty where the layer has one input
  MutableView y;     ///< overwritten
  MutableView kept;  ///< kept_size() floats that backward will read
  MutableView moments =
      {};  ///< moments_size() floats for batch statistics in place of updating the running ones, or empty
};

/// A backward pass gives dx and the layer's part of g together, or in two halves: first dx with an empty `gradient`,
/// then g with an empty `dx`. Everything but dx is the same memory in both halves.
struct BackwardViews {
  View x;                ///< undefined unless the layer keeps its input
  View y;                ///< undefined unless the layer keeps its output
  MutableView kept;      ///< as forward left it
  MutableView dy;        ///< may be used up where `changes_gradient` says so
  MutableView dx;        ///< overwritten; empty where nobody wants it, or in the half that gives g
  MutableView carried;   ///< carried_size() floats from the first half to the second; empty where both are one
  MutableView gradient;  ///< g as the pass' θ is held, of which the layer writes its own blocks alone; empty: dx alone
  kernels::Write write = kernels::Write::overwrite;
};

/// What the plan of a network's memory must know of a layer.
struct LayerTraits {
  bool keeps_input = false;        ///< backward reads x
  bool keeps_output = false;       ///< backward reads y
  bool in_place = false;           ///< forward may be given the same memory as x and y
  bool gradient_in_place = false;  ///< backward may be given the same memory as dy and dx
  bool changes_gradient = false;   ///< backward leaves dy ⊙ activation'(y) in dy
  bool shares_gradient = false;    ///< dx and the residual's gradient are dy itself; there is no backward to run
  bool collective = false;         ///< takes part in a pass over no examples, too, because other ranks wait for it
  bool local_statistics = false;   ///< its running statistics follow this rank's examples alone
};

/// One operation of a network. Owns neither parameters nor activations, so that several micro-batches can be in flight
/// with one object. docs/add-a-layer.md shows how to write one.
class Layer {
 public:
  explicit Layer(const Shape& out) : out_(out) {}
  virtual ~Layer() = default;

  const Shape& out() const { return out_; }
  virtual LayerTraits traits() const = 0;

  /// Asks for kernels that not every device has (kernels::kernels_of), before anything else is asked of the layer.
  /// \throws ConfigError where this one lacks them
  virtual void require_kernels(const kernels::Backend& /*backend*/) const {}
  /// Adds the layer's blocks, "name.weight" for instance, and remembers where they lie. Called once.
  virtual void declare(const std::string& name, const kernels::Backend& backend, ParameterLayout& parameters,
                       ParameterLayout& statistics);
  /// Floats beside x and y that backward reads; a multiple of 16 for each part that goes to the backend.
  virtual Index kept_size() const { return 0; }
  /// Floats that the half of a backward pass that gives dx leaves for the half that gives g, beside dy, which the
  /// latter finds as the former has left it; a multiple of 16 for each part.
  virtual Index carried_size() const { return 0; }
  /// Floats that say a batch's statistics, where running ones follow them; a multiple of 16.
  virtual Index moments_size() const { return 0; }
  /// Multiply-adds with weights, of an example's forward pass.
  virtual double products() const { return 0; }
  /// What a user must know of how the layer works here, e.g. which batch statistics are in force; shown with its kind.
  virtual std::string note() const { return ""; }

  /// Takes a following ReLU, or an addition of a second input, into the layer's own kernel.
  /// \return false where the layer cannot
  virtual bool absorb_relu() { return false; }
  virtual bool absorb_addition() { return false; }

  /// All of its parameters never change: nor do its running statistics, with which it then normalises in training, too.
  /// Called after declare, at most once.
  virtual void freeze() {}

  virtual void forward(const Pass& pass, const ForwardViews& views) const = 0;
  /// Gives dx, and the layer's part of g: overwritten or added to, as `write` says. Of a layer that learns it may be
  /// asked for in halves: dx with an empty gradient, then g with an empty dx; to the same bits. The first half may be
  /// left out where nobody wants dx, unless something is carried.
  virtual void backward(const Pass& pass, const BackwardViews& views) const = 0;
  /// Running statistics follow what forward has left in `moments`.
  virtual void apply_moments(const Pass& /*pass*/, MutableView /*moments*/) const {}

 private:
  Shape out_;
};

}  // namespace unisono::nn
