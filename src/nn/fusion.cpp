// Peephole fusion: an operation that a kernel applies while its values are in registers costs no pass over memory.
#include "graph.hpp"
#include "layers/activation_layer.hpp"
#include "layers/residual.hpp"

namespace unisono::nn {
namespace {

bool is_relu(const Layer& layer) {
  const auto* activation = dynamic_cast<const ActivationLayer*>(&layer);
  return activation != nullptr && activation->activation() == kernels::Activation::relu;
}

bool is_addition(const Layer& layer) { return dynamic_cast<const Addition*>(&layer) != nullptr; }

/// Removes a node; its readers then read the output of the node before it.
void remove_node(Graph& graph, int removed) {
  graph.nodes.erase(graph.nodes.begin() + removed);
  const auto renumber = [removed](int& number) { number -= number > removed ? 1 : 0; };
  for (Node& node : graph.nodes) {
    renumber(node.input);
    renumber(node.residual);
  }
  for (ConfiguredLayer& row : graph.configured) {
    if (row.node == removed) {
      row.node = -1;
      row.kind += " (in " + graph.nodes[static_cast<std::size_t>(removed) - 1].name + ")";
    } else {
      renumber(row.node);
    }
  }
}

/// Fuses node i + 1 into node i, if possible. \return whether it was
bool fuse_next(Graph& graph, int i) {
  Node& node = graph.nodes[static_cast<std::size_t>(i)];
  const Node& next = graph.nodes[static_cast<std::size_t>(i) + 1];
  if (next.input != i + 1 || graph.readers(i + 1) != 1) return false;
  if (is_relu(*next.layer) && node.layer->absorb_relu()) {
    remove_node(graph, i + 1);
    return true;
  }
  if (is_addition(*next.layer) && node.layer->absorb_addition()) {
    node.residual = next.residual;
    remove_node(graph, i + 1);
    return true;
  }
  return false;
}

}  // namespace

void fuse(Graph& graph) {
  for (int i = 0; i + 1 < static_cast<int>(graph.nodes.size());) {
    if (!fuse_next(graph, i)) ++i;
  }
}

}  // namespace unisono::nn
