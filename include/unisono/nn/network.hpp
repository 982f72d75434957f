#pragma once

#include <memory>
#include <string>
#include <vector>

#include "unisono/base/config.hpp"
#include "unisono/kernels/specs.hpp"
#include "unisono/nn/layer.hpp"
#include "unisono/nn/piece.hpp"

namespace unisono::nn {

/// Which part of each layer a rank has, where the work of layers is divided among ranks (tensor parallelism). Shoeybi
/// et al., "Megatron-LM", 2019. A divided layer, or several of them together, has L leaves, which compute apart from
/// each other. What they give is added up in a fixed tree (comm::SumTree), so that results do not depend on which rank
/// has which leaves:
///   attention                heads, in equal parts
///   dense … dense            the outputs of the first layer, which are the inputs of the second; also swiglu … dense.
///                            In between are layers that compute each element by itself
///   embedding, unembedding   the vocabulary
/// All other layers compute the same on every rank.
struct TensorPart {
  int leaves = 1;            ///< L; 1: no layer is divided
  int first = 0, count = 1;  ///< this rank's leaves; `count` is a power of two, or all leaves

  bool is_divided() const { return leaves > 1; }
  bool has_all() const { return count == leaves; }
};

/// One table of `[model] layers = [ … ]`: the settings that all layers have, and those of the layer's kind.
struct LayerSettings {
  std::string kind;              ///< a name of layer_kinds()
  std::string name;              ///< the layer's name; default: kind and number, "convolution1"
  bool inside_residual = false;  ///< the config offers no residual block inside another, and no repeat
  bool inside_repeat = false;    ///< … and no repeat inside a repeat
  bool inside_gate = false;      ///< … and no gate inside a gate
  OwnSettings own = {};
  void describe(ConfigVisitor& visitor);
};

/// The settings of a residual block.
struct ResidualSettings {
  std::vector<LayerSettings> layers, shortcut;  ///< the branch, and what replaces the identity
};

/// The settings of a channel gate.
struct ChannelGateSettings {
  std::vector<LayerSettings> layers;  ///< what computes the factors
};

/// The settings of layers that are repeated.
struct RepeatSettings {
  std::int64_t times = 1;
  std::vector<LayerSettings> layers;
};

/// The loss functions of a network's outputs.
enum class LossKind {
  softmax_cross_entropy,
  sigmoid_cross_entropy,
  multiclass_hinge,
  mean_squared_error,
  mean_absolute_error,
  huber
};

inline constexpr Named<LossKind> kLossKinds[] = {
    {LossKind::softmax_cross_entropy, "softmax_cross_entropy",
     "−log of the predicted probability of the label, for mutually exclusive classes"},
    {LossKind::sigmoid_cross_entropy, "sigmoid_cross_entropy",
     "binary cross-entropy, averaged over independent outputs, for targets in [0, 1] or labels; for two "
     "classes, one output is enough: the probability of the second class"},
    {LossKind::multiclass_hinge, "multiclass_hinge",
     "max(0, 1 + the largest output of another class − the output of the label) (Crammer & Singer 2001)"},
    {LossKind::mean_squared_error, "mean_squared_error", "(y − t)², averaged over the outputs of an example"},
    {LossKind::mean_absolute_error, "mean_absolute_error", "|y − t|, averaged over the outputs of an example"},
    {LossKind::huber, "huber",
     "½ (y − t)² up to |y − t| = delta and linear beyond, averaged over the outputs of an example"}};

inline constexpr Named<kernels::Winograd> kWinogradTiles[] = {
    {kernels::Winograd::none, "none", "direct sums over the taps"},
    {kernels::Winograd::tiles_2x2, "2x2",
     "F(2×2, 3×3): 4/9 of the multiplications; errors are about those of direct sums"},
    {kernels::Winograd::tiles_4x4, "4x4",
     "F(4×4, 3×3): 1/4 of the multiplications; errors are some 5 times those of direct sums (Lavin & Gray 2016)"}};

/// A network's part of `[model]`.
struct NetworkSettings {
  LossKind loss = LossKind::softmax_cross_entropy;
  double label_smoothing = 0;
  std::vector<LayerSettings> layers;
  double delta = 1;  ///< LossKind::huber: |y − t| above which the loss is linear
  kernels::Winograd winograd = kernels::Winograd::tiles_2x2;
  void describe(ConfigVisitor& visitor);
};

/// A row of the table of layers.
struct LayerRow {
  std::string outer;               ///< its name, or that of the residual block or layer of several parts that it is in
  std::string name, kind, output;  ///< `kind` says what was fused, and which statistics are in force
  Index parameters = 0;
  double flops = 0;      ///< flops of an example's forward and backward pass
  Index activation = 0;  ///< floats that the layer's outputs take
};

/// A place between two layers of a network where exactly one tensor crosses: not inside a residual block, and not
/// between an operation and what was fused into it.
struct CutPoint {
  std::string after;         ///< the layer whose outputs cross
  std::string next;          ///< LayerRow::outer of the layer behind the cut point
  Shape shape;               ///< shape of one example's outputs that cross
  Index boundary = 0;        ///< floats of one example's outputs that cross, all its rows together
  PieceCost before, behind;  ///< costs of all layers before the cut point, and of all behind it
};

/// How a network is trained, as far as it must know.
struct NetworkOptions {
  /// Whether all ranks compute each step together, so that "auto" batch statistics can be global.
  bool steps_together = true;
  /// Patterns of names (ParameterLayout::freeze): matching blocks' part of every gradient is 0.
  std::vector<std::string> freeze = {};
  /// What the network has of each layer; blocks that are parts of whole ones say so (Block::cut).
  TensorPart part = {};
  /// Activations inside of residual blocks are not kept for the backward pass, but computed anew before it (Chen et
  /// al., "Training deep nets with sublinear memory cost", 2016). Changes no bit.
  bool recomputes_blocks = false;
};

/// Layers in sequence, with residual blocks.
class Network {
 public:
  /// \throws ConfigError naming the layer that does not fit, or the pattern that fits nothing
  Network(const NetworkSettings& settings, const Shape& in, const kernels::Backend& backend,
          const NetworkOptions& options = {});
  /// The network up to layer `layer`, whose outputs become the network's. For inference, with θ and statistics of the
  /// whole network.
  /// \throws ConfigError with the names of all layers where there is no such layer
  static std::unique_ptr<Network> up_to(const std::string& layer, const NetworkSettings& settings, const Shape& in,
                                        const kernels::Backend& backend);
  ~Network();

  const Shape& in() const;
  const Shape& out() const;
  /// Piece::gives_loss of the whole network.
  bool gives_loss() const { return whole_->gives_loss(); }
  const ParameterLayout& parameters() const { return parameters_; }  ///< layout of θ
  const ParameterLayout& statistics() const { return statistics_; }  ///< layout of the running statistics
  /// Whether the running statistics of any layer come from this rank's examples only.
  bool statistics_are_local() const;
  /// Whether a layer compares the examples of a micro-batch (LayerTraits::compares_examples). \param local true: this
  /// rank's examples alone; false: those of all ranks
  bool compares_examples(bool local) const;

  /// Floats of the block that an embedding and an unembedding share; 0: there is none. See TiedWeights.
  Index tied_floats() const;
  /// The block itself. \pre tied_floats() > 0
  const Block& tied_block() const;

  /// Checks that an example's training loss depends on θ and on the example alone.
  /// \throws ConfigError naming a layer that draws random numbers or uses statistics of the batch
  void require_deterministic() const;
  /// Checks that no token sees later ones, of which the next is the one that a language model predicts there.
  /// \throws ConfigError naming a layer that lets it
  void require_causal() const;

  /// All cut points, in the order of the layers.
  std::vector<CutPoint> cut_points() const;
  /// The first layer that computes something, named as by CutPoint::next.
  std::string first_layer() const;
  /// The layers from cut point `first` to cut point `last`, counted from 1: 0 is the network's start, and the number of
  /// cut points plus 1 its end. The network must outlive the piece. \throws std::out_of_range
  Piece piece(int first, int last) const;

  /// The layers in order, and which tensors they connect.
  const Graph& graph() const { return *graph_; }
  int nodes() const;  ///< how many layers run, after what was fused

  /// Piece::moments_size of the whole network.
  Index moments_size() const;
  /// Piece::apply_moments of the whole network.
  void apply_moments(const Pass& pass, MutableView moments) const;

  /// The workspace of a pass over the whole network.
  WorkspacePlan plan(Index batch, bool training) const;
  /// The table of layers, with activations for `batch` examples.
  std::vector<LayerRow> rows(Index batch) const;
  /// Notes on the layers, e.g. "global statistics", without repetitions; and what is frozen.
  std::vector<std::string> notes() const;

  /// Loads the inputs and runs all layers.
  /// Collective where training with global statistics; then B may be 0, too.
  /// \return the last layer's outputs, in the workspace
  View forward(const Pass& pass, const Inputs& inputs, const Workspace& workspace) const;
  /// Where ∂loss/∂outputs is to be written before `backward`.
  MutableView output_gradient(const Workspace& workspace) const;
  /// g (+)= ∂loss/∂θ, block by block: the unused floats between blocks stay what they were, zero since g was allocated.
  /// `ready` is told ranges of g that are final: from the end to the start, without gaps, the same ranges for every
  /// batch.
  void backward(const Pass& pass, const Workspace& workspace, MutableView gradient, kernels::Write write,
                GradientReady ready) const;
  /// Piece::steps_at_once of the whole network.
  std::vector<FloatRange> steps_at_once() const;

 private:
  Network(std::unique_ptr<Graph> graph, const kernels::Backend& backend, const std::vector<std::string>& patterns);
  void freeze(const std::vector<std::string>& patterns);
  void fill_row(int i, Index batch, LayerRow& row) const;

  const kernels::Backend& backend_;
  ParameterLayout parameters_, statistics_;
  std::unique_ptr<Graph> graph_;
  std::unique_ptr<Piece> whole_;
};

}  // namespace unisono::nn
