#pragma once

#include <memory>
#include <vector>

#include "unisono/nn/layer.hpp"
#include "unisono/tensor/gradient_ready.hpp"

namespace unisono::nn {

struct ForwardSlots;    // where forward passes write to
struct Graph;           // the layers in order, and which tensors they connect
struct MemorySchedule;  // which tensors share memory, and when each is needed

/// What a workspace is laid out for.
enum class PassKind {
  inference,  ///< forward only
  training,   ///< forward and `backward`
  halves,     ///< forward, `backward_inputs` and, at any later time, `backward_weights`: takes the most memory
};

/// Where every tensor of a pass over one batch size lies in one piece of memory.
struct WorkspacePlan {
  Index batch = 0;
  PassKind kind = PassKind::inference;
  std::vector<Index> offsets;  ///< floats
  std::vector<Index> sizes;    ///< floats
  Index floats = 0;            ///< floats of the whole workspace
};

/// The memory of one micro-batch in flight, in the backend's memory. It need not be initialised.
struct Workspace {
  const WorkspacePlan& plan;
  MutableView memory;  ///< plan.floats, aligned to a cache line
};

/// Flops for one example, counting only products with weights, and the number of parameters.
struct PieceCost {
  double forward = 0;
  double backward_inputs = 0, backward_weights = 0;
  double again = 0;  ///< of activations that are computed anew for the backward pass
  Index parameters = 0;

  /// Without what is computed anew.
  double flops() const { return forward + backward_inputs + backward_weights; }
  PieceCost& operator+=(const PieceCost& more);
};

/// Consecutive layers of a network between two of its cut points, or all layers. Several micro-batches may be in flight
/// at once, each with a workspace that the caller owns; all passes in flight are given the same `Pass::parameters`.
///
/// A micro-batch runs forward, then `backward`; or, on a workspace of PassKind::halves, `backward_inputs` and later
/// `backward_weights`, whose results are the same bits. Names, layout and random numbers of a piece's layers are those
/// of the whole network. All pieces of a network, one after the other, compute the same bits as the whole network.
///
/// Activations at a cut, and gradients with respect to them, are [B] examples of `in()` or `out()` in the backend's
/// layout, of `Backend::activation_size(extent, B · T)` floats rounded up to a cache line, with T rows of an example.
class Piece {
 public:
  /// Nodes [first, last) of a graph, between two of its cut points. The graph must outlive the piece.
  Piece(const Graph& graph, const kernels::Backend& backend, int first, int last);
  Piece(Piece&&) noexcept;
  ~Piece();

  const Shape& in() const;
  const Shape& out() const;
  /// Whether the last layer gives the loss of its outputs (LayerTraits::gives_loss).
  bool gives_loss() const;
  FloatRange parameters() const;  ///< range of θ and g, padding included
  FloatRange statistics() const;  ///< range of the running statistics
  PieceCost cost() const;
  PieceCost cost_of(int node) const;  ///< cost of one layer, counted from the piece's first
  /// Whether the piece computes ∂loss/∂input: only where a layer before it has trainable parameters.
  bool gives_input_gradient() const;
  WorkspacePlan plan(Index batch, PassKind kind) const;

  // One micro-batch. Collective where training with global batch statistics; then B may be 0, too.

  /// Loads the network's inputs and runs the layers of its first piece.
  /// \return the last layer's outputs, in the workspace until the backward pass begins
  View forward(const Pass& pass, const Inputs& inputs, const Workspace& workspace) const;
  /// Runs the layers of a later piece on what `input` holds.
  View forward(const Pass& pass, const Workspace& workspace) const;
  /// Where the outputs of the previous piece are to be written before `forward`, which may overwrite them.
  MutableView input(const Workspace& workspace) const;

  /// Where ∂loss/∂outputs is to be written, after `forward` and before a backward pass.
  MutableView output_gradient(const Workspace& workspace) const;
  /// g (+)= ∂loss/∂θ, block by block: the unused floats between blocks stay what they were, zero since g was allocated.
  /// `ready` is told ranges of g that are final: from the end of `parameters()` to its start, without gaps, the same
  /// ranges for every batch. \param gradient g from pass.first_parameter on, as pass.parameters is θ
  void backward(const Pass& pass, const Workspace& workspace, MutableView gradient, kernels::Write write,
                GradientReady ready) const;
  /// The ranges of θ whose steps `backward` makes at once where Pass::step is given, in ascending order.
  std::vector<FloatRange> steps_at_once() const;
  /// Computes the input's gradient, and leaves in the workspace what `backward_weights` needs.
  void backward_inputs(const Pass& pass, const Workspace& workspace) const;
  /// g (+)= ∂loss/∂θ, as `backward`, from what `backward_inputs` has left in the workspace. Never collective.
  void backward_weights(const Pass& pass, const Workspace& workspace, MutableView gradient, kernels::Write write,
                        GradientReady ready) const;
  /// ∂loss/∂input, after `backward` or `backward_inputs`; empty where it is not computed.
  View input_gradient(const Workspace& workspace) const;

  // Running statistics of several micro-batches, in an order of the caller's choice

  /// Floats of `Pass::moments`: for each layer with running statistics, sums over a batch, as doubles.
  Index moments_size() const;
  /// Updates the running statistics with the `moments` that one micro-batch's forward pass has left, on any rank: with
  /// the same bits as if that pass had updated the statistics now. \param pass only backend, statistics and
  /// first_statistic are used
  void apply_moments(const Pass& pass, MutableView moments) const;

  const MemorySchedule& schedule(PassKind kind) const;

 private:
  struct Structure;
  enum class Half { both, inputs, weights };
  struct Gradient {  ///< where it goes, and how
    MutableView values;
    kernels::Write write;
  };

  void load(const Pass& pass, const Inputs& inputs, MutableView x) const;
  MutableView slot(const Workspace& workspace, int number) const;
  View run_forward(const Pass& pass, const Workspace& workspace) const;
  void run_forward(int i, const Pass& pass, const Workspace& workspace, const ForwardSlots& slots) const;
  void recompute(int i, const Pass& pass, const Workspace& workspace) const;
  bool runs_backward(int i, const Pass& pass, Half half) const;
  void run_backward(int i, const Pass& pass, const Workspace& workspace, const Gradient& gradient, Half half) const;
  void copy(const Pass& pass, const Workspace& workspace, int from, int to) const;
  void add_contributions(int i, const Pass& pass, const Workspace& workspace) const;
  void all_backward(const Pass& pass, const Workspace& workspace, const Gradient& gradient, Half half,
                    GradientReady ready) const;

  const kernels::Backend& backend_;
  std::unique_ptr<const Structure> structure_;
};

}  // namespace unisono::nn
