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

/// Infers all shapes and connects the layers.
/// \throws ConfigError "model.layers[3] 'dense1': …"
Graph build_graph(const NetworkSettings& settings, const Shape& in, bool steps_together);

/// Leaves only what a layer's outputs depend on, which the graph then gives: the parameters that are left keep their
/// places in θ. Before anything is fused. \throws ConfigError with the names of all layers where there is no such one
void cut_after(Graph& graph, const std::string& layer);

/// Takes each ReLU that follows a dense, convolution or batch norm layer into that layer's kernel, and each addition of
/// a residual block whose branch ends with a batch norm into that. Changes no result.
void fuse(Graph& graph);

}  // namespace unisono::nn
