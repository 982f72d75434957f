#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "unisono/kernels/backend.hpp"
#include "unisono/kernels/step_kernels.hpp"
#include "unisono/nn/operation.hpp"
#include "unisono/tensor/exact_sum.hpp"
#include "unisono/tensor/layout.hpp"

namespace unisono::nn {

/// The shape of one example's activations between two layers: T rows of channels × height × width values each. Images
/// and tables have T = 1, a sequence has a row for each position. To kernels a row of a sequence is an example: B
/// sequences are a batch of B·T.
struct Shape {
  kernels::Extent extent;  ///< of a row
  bool flat = false;       ///< `flatten` has marked the shape as a row of values; the memory layout is unchanged
  Index rows = 1;          ///< T
  Index vocabulary = 0;    ///< above 0: the values are token numbers below this, one in each row
  bool is_row() const { return flat || extent.height * extent.width == 1; }
  /// The same rows with other values.
  Shape with(const kernels::Extent& other) const { return {.extent = other, .rows = rows}; }
  bool operator==(const Shape&) const = default;
};

/// A shape as text: "20×24×24", "800" for a row of values, "128 × 384" for 128 rows of 384.
std::string text_of(const Shape& shape);

/// What the head of a language model is given, which computes the loss of its own outputs (LayerTraits::gives_loss).
struct LossTerms {
  std::span<const std::int32_t> labels;  ///< [B·T] in plain memory; −1: the row has none
  float scale = 0;                       ///< of gradients
  kernels::LossSums& sums;               ///< added to
};

/// Where an embedding and an unembedding share one block W of weights (tied weights), the gradient of W has a part from
/// each. `gradient` collects that of the unembedding over the batches whose gradients are added up; where the sum is
/// complete, the backward pass of the embedding adds it to its own. So the parts are added in the same order wherever
/// the two layers are.
struct TiedWeights {
  View weight = {};      ///< W [V, C] where the pass' parameters are without it; empty: it is one of them
  MutableView gradient;  ///< [V, C] in the backend's memory
  kernels::Write write = kernels::Write::overwrite;  ///< what the unembedding does to `gradient`
  bool complete = true;                              ///< whether no later batch's gradient is added
};

/// The seconds that each node of a piece took, sums over passes. Kernels that a device runs later are not in them.
struct LayerSeconds {
  std::vector<double> forward, backward;  ///< [nodes]; `backward` with what is computed anew for it
};

/// The arguments of a forward or backward pass over one micro-batch, other than activations. Owns nothing.
struct Pass {
  kernels::Backend& backend;
  Reducer& reducer;        ///< sums doubles in the backend's memory
  View parameters;         ///< θ, from `first_parameter` on: all parameters of the pass' layers, or more
  MutableView statistics;  ///< running statistics, from `first_statistic` on: updated where training, else read
  bool training = false;
  Index batch = 0;                          ///< B, this rank's examples; may be 0
  std::span<const std::uint64_t> examples;  ///< [B] the examples' indices in the set, where training
  std::int64_t epoch = 0;
  std::uint64_t seed = 0;  ///< seed of dropout masks
  /// Floats of the whole vectors that lie before `parameters` and `statistics`.
  Index first_parameter = 0, first_statistic = 0;
  /// False: running statistics do not change, e.g. where activations are recomputed for a backward pass.
  bool updates_statistics = true;
  /// [Piece::moments_size()] in the backend's memory, or empty. Where training, batch statistics are stored here
  /// instead of updating the running ones; see Piece::apply_moments.
  MutableView moments = {};
  /// [B·T] numbers of the rows of sequences, example · T + t, where training; empty where T is 1.
  std::span<const std::uint64_t> row_numbers = {};
  /// [B] rows of each sequence that are real, those before the padding; empty: all are, or T is 1.
  std::span<const std::int32_t> lengths = {};
  const LossTerms* loss = nullptr;  ///< for a layer that gives the loss; null: nobody asks for it
  /// For layers with tied weights; null: W is one of the parameters, and the unembedding's part of its gradient goes
  /// into g before the embedding adds its own.
  const TiedWeights* tied = nullptr;
  TensorGroup* tensor = nullptr;    ///< the ranks that share the layers' work; null: this rank does all of it
  LayerSeconds* seconds = nullptr;  ///< to which each layer's time is added; null: nobody measures
  /// Makes the steps of the weights that Layer::steps_at_once names in the backward pass, whose gradient is not stored
  /// then; null: the whole gradient is stored.
  const kernels::StepAtOnce* step = nullptr;

  /// A block's part of `parameters`.
  View parameter(const Block& block) const { return parameters.subspan(begin(block, first_parameter), size(block)); }
  /// A block's part of `statistics`.
  MutableView statistic(const Block& block) const {
    return statistics.subspan(begin(block, first_statistic), size(block));
  }
  /// A block's part of a vector g that is laid out as `parameters`; empty where g is empty.
  MutableView gradient(MutableView g, const Block& block) const {
    return g.empty() ? g : g.subspan(begin(block, first_parameter), size(block));
  }

 private:
  static std::size_t begin(const Block& block, Index first) { return static_cast<std::size_t>(block.offset - first); }
  static std::size_t size(const Block& block) { return static_cast<std::size_t>(block.stored_size()); }
};

/// The tensors of a layer's forward pass.
struct ForwardViews {
  View x;            ///< [B] examples, of the input's extent
  View residual;     ///< of y's extent; empty where the layer has one input
  MutableView y;     ///< overwritten
  MutableView kept;  ///< kept_size() floats, saved for backward
  MutableView moments =
      {};  ///< moments_size() floats for batch statistics, instead of updating the running ones; or empty
};

/// The tensors of a layer's backward pass. The pass computes dx and the layer's part of g together, or in two halves:
/// first dx, with an empty `gradient`, then g, with an empty `dx`. Everything but dx is the same memory in both halves.
struct BackwardViews {
  View x;                      ///< empty unless the layer keeps its input (LayerTraits::keeps_input)
  View y;                      ///< empty unless the layer keeps its output (LayerTraits::keeps_output)
  MutableView kept;            ///< as forward left it
  MutableView dy;              ///< may be overwritten where LayerTraits::changes_gradient
  MutableView dx;              ///< overwritten; empty where it is not wanted, and in the half for g
  View residual = {};          ///< empty unless the layer multiplies its inputs (LayerTraits::multiplies)
  MutableView dresidual = {};  ///< likewise; overwritten; empty where it is not wanted
  MutableView carried;         ///< carried_size() floats from the first half to the second; empty where both are one
  MutableView gradient;        ///< laid out as Pass::parameters; the layer writes only its own blocks; empty: only dx
  kernels::Write write = kernels::Write::overwrite;
};

/// Properties of a layer, for the memory plan of a network.
struct LayerTraits {
  bool keeps_input = false;        ///< backward reads x
  bool keeps_output = false;       ///< backward reads y
  bool in_place = false;           ///< forward allows y to be the same memory as x
  bool gradient_in_place = false;  ///< backward allows dx to be the same memory as dy
  bool changes_gradient = false;   ///< backward leaves dy ⊙ activation'(y) in dy
  bool shares_gradient = false;    ///< dx and the residual's gradient are dy itself; there is no backward to run
  bool multiplies = false;         ///< backward reads the residual, and gives the residual's gradient, too
  bool collective = false;         ///< runs for an empty batch, too, because other ranks wait for it
  bool local_statistics = false;   ///< the layer's running statistics come from this rank's examples only
  bool random = false;             ///< draws random numbers in training
  bool passes_on = false;          ///< y is x, in the same memory; forward does nothing
  /// The layer's batch statistics need two values of a channel, and an example has one.
  bool compares_examples = false;
  /// The layer is a head: the network's last layer, which adds the loss of its outputs to Pass::loss, in the forward
  /// pass of an evaluation, and in the backward pass of training. Its outputs are never stored, and have no gradient.
  bool gives_loss = false;
  bool sees_later_rows = false;  ///< a row of a sequence may depend on those behind it, and so on padding
  bool pools_rows = false;       ///< makes one row of a sequence, from the real ones alone
};

/// One operation of a network. Owns neither parameters nor activations, so that several micro-batches can be in flight
/// with one object. docs/add-a-layer.md shows how to write one.
class Layer {
 public:
  explicit Layer(const Shape& out) : out_(out) {}
  virtual ~Layer() = default;

  const Shape& out() const { return out_; }
  virtual LayerTraits traits() const = 0;

  /// Asks for kernels that not every device has (kernels::kernels_of). Called before any other function of the layer.
  /// \throws ConfigError where the backend lacks them
  virtual void require_kernels(const kernels::Backend& /*backend*/) const {}
  /// Adds the layer's blocks, "name.weight" for instance, and remembers their offsets. Called once.
  virtual void declare(const std::string& name, const kernels::Backend& backend, ParameterLayout& parameters,
                       ParameterLayout& statistics);
  /// Floats that forward saves for backward, in addition to x and y; a multiple of 16 for each view that the backend
  /// gets.
  virtual Index kept_size() const { return 0; }
  /// The values of each row that forward saves for backward instead, as an activation; empty: none. A layer has
  /// `kept_size` floats or these.
  virtual kernels::Extent kept_of_row() const { return {0, 0, 0}; }
  /// Floats that the first half of a backward pass (dx) saves for the second (g), in addition to dy, which the second
  /// half finds as the first has left it; a multiple of 16 for each view.
  virtual Index carried_size() const { return 0; }
  /// Floats of a batch's statistics, for layers with running statistics; a multiple of 16.
  virtual Index moments_size() const { return 0; }
  /// Multiply-adds in products of the forward pass of one example, all its rows together.
  virtual double products() const { return 0; }
  /// What a user must know of the layer's mode, e.g. which batch statistics it uses; shown next to the layer's kind.
  virtual std::string note() const { return ""; }
  /// What the layer computes, for exports. Called after `declare`, before anything is fused into the layer. A layer
  /// that does not say it cannot be exported as a program, only its parameters.
  virtual Operation operation() const { return {}; }

  /// Fuses a following ReLU into the layer's own kernel.
  /// \return false where the layer cannot
  virtual bool absorb_relu() { return false; }
  /// Fuses a following pooling into the layer's own kernel. Its output has then the pooling's extent.
  /// \return false where the layer, or its device, cannot
  virtual bool absorb_pool(const kernels::PoolSpec& /*pool*/, const kernels::Backend& /*backend*/) { return false; }
  /// Fuses the addition of a second input into the layer's own kernel.
  /// \return false where the layer cannot
  virtual bool absorb_addition() { return false; }

  /// The name of the earlier layer whose weights this layer uses; empty: none.
  virtual std::string weights_of() const { return ""; }
  /// Tells the layer that a later layer uses its weights, too: in each backward pass that layer has begun their
  /// gradient, to which this one adds.
  virtual void share_weights() {}

  /// Tells the layer that all of its parameters are frozen. The layer's running statistics then do not change, and it
  /// normalises with them in training, too. Called after declare, at most once.
  virtual void freeze() {}

  /// Computes y from x, and from the residual where there is one.
  virtual void forward(const Pass& pass, const ForwardViews& views) const = 0;
  /// Computes dx, and the layer's part of g: overwritten or added to, as `write` says. A layer with trainable
  /// parameters may be called in two halves (see BackwardViews), with the same bits as results. The first half may be
  /// left out where dx is not wanted, unless carried_size() > 0.
  virtual void backward(const Pass& pass, const BackwardViews& views) const = 0;
  /// The weights whose steps a backward pass can make at once (Pass::step): floats of θ.
  virtual FloatRange steps_at_once(const kernels::Backend& /*backend*/) const { return {}; }
  /// Updates the running statistics with the batch statistics that forward has left in `moments`.
  virtual void apply_moments(const Pass& /*pass*/, MutableView /*moments*/) const {}

 protected:
  /// How many rows a pass has, B·T: what kernels take for the batch.
  Index rows(const Pass& pass) const { return pass.batch * out_.rows; }
  void set_out(const Shape& out) { out_ = out; }

 private:
  Shape out_;
};

}  // namespace unisono::nn
