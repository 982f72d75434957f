#pragma once

#include <memory>
#include <string>
#include <vector>

#include "unisono/nn/layer.hpp"
#include "unisono/nn/network.hpp"
#include "unisono/nn/piece.hpp"

namespace unisono::nn {

/// A layer and the tensors that it connects. Node i writes tensor i + 1; tensor 0 is the network's input.
struct Node {
  std::unique_ptr<Layer> layer;
  std::string name;
  int input = 0;      ///< tensor
  int residual = -1;  ///< second input; −1: none
  std::string outer;  ///< see LayerRow
  /// It belongs to layers that are divided together (TensorPart), and is not the first node of them.
  bool inside = false;
  Index first = 0;  ///< its parameters are [first, last) of θ, padding included
  Index last = 0;
  Index parameters = 0;                 ///< number of parameters, without padding
  FloatRange statistics = {};           ///< its part of the running statistics
  FloatRange moments = {};              ///< its part of the moments of all layers
  std::vector<FloatRange> frozen = {};  ///< parts of [first, last) that are frozen
  bool learns = false;                  ///< it has trainable parameters
};

/// A row of the table of layers, as the config lists them.
struct ConfiguredLayer {
  std::string outer, name, kind;
  Shape out;
  int node = -1;   ///< −1: computes nothing (flatten), or was fused into another layer
  int tensor = 0;  ///< its output, before anything is fused
};

/// The layers in the order in which they run, and which tensors they connect.
struct Graph {
  Shape in;
  std::vector<Node> nodes;
  std::vector<ConfiguredLayer> configured;
  /// Whether activations inside of residual blocks are computed anew for the backward pass.
  bool recomputes_blocks = false;

  int tensors() const { return static_cast<int>(nodes.size()) + 1; }
  const Shape& shape(int tensor) const {
    return tensor == 0 ? in : nodes[static_cast<std::size_t>(tensor) - 1].layer->out();
  }
};

/// Nodes [first, last).
struct NodeRange {
  int first, last;
};

/// Nodes [first, last) of a graph, numbered from 0; tensor 0 is the one that enters.
struct GraphPiece {
  const Graph& graph;
  int first, last;

  int nodes() const { return last - first; }
  const Node& node(int i) const { return graph.nodes[static_cast<std::size_t>(first + i)]; }
  int input(int i) const { return node(i).input - first; }
  /// Whether node i gives the loss of its outputs, which are not stored.
  bool gives_loss(int i) const { return node(i).layer->traits().gives_loss; }
  int residual(int i) const { return node(i).residual < 0 ? -1 : node(i).residual - first; }
  const Shape& shape(int tensor) const { return graph.shape(first + tensor); }
};

/// For each tensor, how many nodes read it.
std::vector<int> readers_of(const Graph& graph);

/// For each tensor, whether its gradient is wanted: only where it depends on trainable parameters.
std::vector<bool> wanted_gradients(const Graph& graph);

/// Infers all shapes and connects the layers.
/// \throws ConfigError "model.layers[3] 'dense1': …"
Graph build_graph(const NetworkSettings& settings, const Shape& in, const NetworkOptions& options = {});

/// The tensors at which a graph can be cut in two, which are also the numbers of the nodes after the cuts: no node
/// after such a tensor reads an earlier one. Call it after `fuse`.
std::vector<int> cuts_of(const Graph& graph);

/// The nodes between two cuts among which a residual is added: of each residual block, with its shortcut and its
/// addition. Call it after `fuse`.
std::vector<NodeRange> residual_blocks_of(const Graph& graph);

/// Makes a layer's outputs those of the graph, and removes all that they do not depend on. The remaining parameters
/// keep their offsets in θ. Call it before `fuse`. \throws ConfigError with the names of all layers where there is no
/// such layer
void cut_after(Graph& graph, const std::string& layer);

/// Fuses each ReLU that follows a dense, convolution or batch norm layer into that layer's kernel, a 2 × 2 maximum
/// pooling behind a convolution into the convolution where the device can, and the addition of a residual block whose
/// branch ends with a batch norm into the batch norm's. Changes no result.
void fuse(Graph& graph, const kernels::Backend& backend);

/// Memory of one tensor, or of several in turn; needed from moment `first` to moment `last`, both included.
///
/// Moments of a piece: 0 loads the inputs; then each node runs forward; the outputs are given away, and their gradient
/// is taken; the nodes run backward, from the last one to the first, where those of a residual block may run forward
/// again before; in halves, the nodes' second halves follow in the same order.
struct Slot {
  kernels::Extent extent;  ///< of a row of an activation, or of the gradient with respect to one
  Index rows = 1;          ///< of an example
  Index floats = 0;        ///< … or, where above 0, plain floats
  int first = 0, last = 0;
};

/// The backward pass of one node, in slots; −1: none.
struct BackwardStep {
  int dy = -1;  ///< −1: neither this node nor one before it has trainable parameters
  int copy_of =
      -1;  ///< slot that dy must be copied from first, because the layer changes dy and others need it unchanged
  int dx = -1;
  int dresidual = -1;  ///< of a layer that multiplies; otherwise the residual's gradient is dy
  struct Sum {
    int from, to;       ///< to += from
    bool copy = false;  ///< … or to = from
  };
  std::vector<Sum> sums;  ///< after the layer: gradients that several readers of a tensor contribute to
};

/// The slots of forward passes.
struct ForwardSlots {
  std::vector<int> activation;  ///< where each tensor is read
  std::vector<int> output;      ///< where each node writes its outputs
  std::vector<int> kept;        ///< where each node writes what it keeps; −1: nothing
};

/// Which of a piece's tensors share memory, and when each is needed. Independent of the size of the batch.
struct MemorySchedule {
  std::vector<Slot> slots;
  ForwardSlots forward;
  std::vector<NodeRange> recomputed;  ///< residual blocks of which nodes run forward again before their backward passes
  std::vector<bool> runs_again;       ///< whether each node does
  ForwardSlots again;                 ///< of these nodes then; the same as `forward` for all others
  std::vector<int> carried;           ///< slot of each node's carried floats; −1: none
  std::vector<BackwardStep> backward;  ///< of each node; where training
  int output_gradient = -1;            ///< slot; where training
  int input_gradient = -1;             ///< slot; −1: not wanted

  /// The block of `recomputed` whose nodes run again before the backward pass of node i, its last one; empty: none.
  NodeRange block_before(int i) const;
};

/// An activation is kept until backward only where a layer's traits ask for it.
MemorySchedule make_memory_schedule(const GraphPiece& piece, PassKind kind);

/// Offsets of slots in one buffer of `floats` floats, where slots that are needed at the same time do not overlap: the
/// largest is placed first, each as low as it fits. (Pisarchyk and Lee, "Efficient memory management for deep neural
/// net inference", 2020, greedy by size.)
struct Arrangement {
  std::vector<Index> offsets;
  Index floats = 0;
};
Arrangement arrange(const std::vector<Slot>& slots, const std::vector<Index>& sizes);

}  // namespace unisono::nn
