#pragma once

#include <memory>
#include <string>
#include <vector>

#include "unisono/nn/layer.hpp"
#include "unisono/nn/network_settings.hpp"

namespace unisono::nn {

/// A layer in its place. Node i writes tensor i + 1; tensor 0 is the network's input.
struct Node {
  std::unique_ptr<Layer> layer;
  std::string name;
  int input = 0;      ///< tensor
  int residual = -1;  ///< second input; −1: none
  Index first = 0;    ///< its parameters are [first, last) of θ, padding included
  Index last = 0;
  Index parameters = 0;                 ///< of these, without padding
  FloatRange statistics = {};           ///< of the running statistics
  FloatRange moments = {};              ///< of the moments of all layers
  std::vector<FloatRange> frozen = {};  ///< of these: blocks that never change
  bool learns = false;                  ///< it has parameters that do
};

/// A row of the table of layers, as the config lists them.
struct ConfiguredLayer {
  std::string name, kind;
  Shape out;
  int node = -1;   ///< −1: moves nothing (flatten), or was taken into another layer
  int tensor = 0;  ///< that it gives, before anything is fused
};

/// The layers in the order in which they run, and which tensors they connect.
struct Graph {
  Shape in;
  std::vector<Node> nodes;
  std::vector<ConfiguredLayer> configured;

  int tensors() const { return static_cast<int>(nodes.size()) + 1; }
  const Shape& shape(int tensor) const {
    return tensor == 0 ? in : nodes[static_cast<std::size_t>(tensor) - 1].layer->out();
  }
  /// How many nodes read a tensor.
  int readers(int tensor) const;
};

/// Nodes [first, last) of a graph, numbered from 0; tensor 0 is the one that enters.
struct GraphPiece {
  const Graph& graph;
  int first, last;

  int nodes() const { return last - first; }
  const Node& node(int i) const { return graph.nodes[static_cast<std::size_t>(first + i)]; }
  int input(int i) const { return node(i).input - first; }
  int residual(int i) const { return node(i).residual < 0 ? -1 : node(i).residual - first; }
  const Shape& shape(int tensor) const { return graph.shape(first + tensor); }
  int readers(int tensor) const { return graph.readers(first + tensor); }
};

/// Of each tensor whether its gradient is wanted: anything that it depends on learns.
std::vector<bool> wanted_gradients(const Graph& graph);

/// Infers all shapes and connects the layers.
/// \throws ConfigError "model.layers[3] 'dense1': …"
Graph build_graph(const NetworkSettings& settings, const Shape& in, bool steps_together);

/// The tensors, and so the nodes that follow them, at which a graph can be cut in two: after anything is fused, no
/// other tensor from before them is read behind them.
std::vector<int> cuts_of(const Graph& graph);

/// Leaves only what a layer's outputs depend on, which the graph then gives: the parameters that are left keep their
/// places in θ. Before anything is fused. \throws ConfigError with the names of all layers where there is no such one
void cut_after(Graph& graph, const std::string& layer);

/// Takes each ReLU that follows a dense, convolution or batch norm layer into that layer's kernel, and each addition of
/// a residual block whose branch ends with a batch norm into that. Changes no result.
void fuse(Graph& graph);

}  // namespace unisono::nn
