// Where a network can be cut: before node i, if no node from i on reads a tensor with a smaller number than i.
#include <algorithm>
#include <stdexcept>

#include "graph.hpp"
#include "unisono/nn/network.hpp"

namespace unisono::nn {

std::vector<int> cuts_of(const Graph& graph) {
  const int nodes = static_cast<int>(graph.nodes.size());
  std::vector<int> cuts;
  int earliest = nodes;  // tensor that nodes from i on read
  for (int i = nodes; i-- > 1;) {
    const Node& node = graph.nodes[static_cast<std::size_t>(i)];
    earliest = std::min(earliest, node.residual < 0 ? node.input : std::min(node.input, node.residual));
    if (earliest == i) cuts.push_back(i);
  }
  std::reverse(cuts.begin(), cuts.end());
  return cuts;
}

namespace {

/// The layer of the config that begins with a node; nodes inside a residual block are called "residual1.…".
std::string beginning_at(const Graph& graph, int node) {
  const std::string& name = graph.nodes[static_cast<std::size_t>(node)].name;
  return name.substr(0, name.find('.'));
}

}  // namespace

std::string Network::first_layer() const { return beginning_at(*graph_, 0); }

std::vector<CutPoint> Network::cut_points() const {
  std::vector<PieceCost> before(1), behind(1);  // cumulative costs from the first node, and from the last one
  const int nodes = static_cast<int>(graph_->nodes.size());
  for (int i = 0; i < nodes; ++i) {
    before.push_back(PieceCost(before.back()) += whole_->cost_of(i));
    behind.push_back(PieceCost(behind.back()) += whole_->cost_of(nodes - 1 - i));
  }
  std::vector<CutPoint> points;
  for (const int cut : cuts_of(*graph_)) {
    const Shape& shape = graph_->shape(cut);
    points.push_back({.after = graph_->nodes[static_cast<std::size_t>(cut) - 1].name,
                      .next = beginning_at(*graph_, cut),
                      .shape = shape,
                      .boundary = shape.extent.size(),
                      .before = before[static_cast<std::size_t>(cut)],
                      .behind = behind[static_cast<std::size_t>(nodes - cut)]});
  }
  return points;
}

Piece Network::piece(int first, int last) const {
  std::vector<int> cuts = cuts_of(*graph_);
  cuts.insert(cuts.begin(), 0);
  cuts.push_back(static_cast<int>(graph_->nodes.size()));
  if (first < 0 || first >= last || last >= static_cast<int>(cuts.size())) {
    throw std::out_of_range("a piece must lie between two different cut points");
  }
  return {*graph_, backend_, cuts[static_cast<std::size_t>(first)], cuts[static_cast<std::size_t>(last)]};
}

}  // namespace unisono::nn
