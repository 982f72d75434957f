#include "unisono/nn/network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "graph.hpp"
#include "layers/catalog.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::nn {
namespace {

std::string no_such_block(const std::string& pattern, const ParameterLayout& parameters) {
  std::string names;
  for (const Block& block : parameters.blocks()) names += (names.empty() ? "" : ", ") + block.name;
  return fmt::format(
      "train.freeze: no parameters are called '{}'; use names of parameters or layers, with * for any characters; the "
      "parameters are {}",
      pattern, names);
}

}  // namespace

Network::Network(std::unique_ptr<Graph> graph, const kernels::Backend& backend,
                 const std::vector<std::string>& patterns)
    : backend_(backend), graph_(std::move(graph)) {
  fuse(*graph_, backend);
  if (graph_->recomputes_blocks && residual_blocks_of(*graph_).empty()) {
    throw ConfigError(
        "replica.recompute = \"blocks\": the network has no residual block whose activations could be computed anew; "
        "set \"none\", or in a pipeline \"all\"");
  }
  for (Node& node : graph_->nodes) {
    node.first = parameters_.size();
    node.parameters = -parameters_.parameters();
    node.statistics.first = statistics_.size();
    node.layer->require_kernels(backend);
    node.layer->declare(node.name, backend, parameters_, statistics_);
    node.last = parameters_.size();
    node.parameters += parameters_.parameters();
    node.statistics.last = statistics_.size();
  }
  if (parameters_.size() > 0) freeze(patterns);
  Index moments = 0;
  for (Node& node : graph_->nodes) {
    node.moments.first = moments;
    moments += node.layer->moments_size();
    node.moments.last = moments;
  }
  whole_ = std::make_unique<Piece>(*graph_, backend, 0, static_cast<int>(graph_->nodes.size()));
}

Network::Network(const NetworkSettings& settings, const Shape& in, const kernels::Backend& backend,
                 const NetworkOptions& options)
    : Network(std::make_unique<Graph>(build_graph(settings, in, options)), backend, options.freeze) {
  if (parameters_.size() == 0) throw ConfigError("model.layers: no layer has parameters; there is nothing to train");
}

std::unique_ptr<Network> Network::up_to(const std::string& layer, const NetworkSettings& settings, const Shape& in,
                                        const kernels::Backend& backend) {
  auto graph = std::make_unique<Graph>(build_graph(settings, in));
  cut_after(*graph, layer);
  return std::unique_ptr<Network>(new Network(std::move(graph), backend, {}));
}

Network::~Network() = default;

void Network::freeze(const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    if (parameters_.freeze(pattern) == 0) throw ConfigError(no_such_block(pattern, parameters_));
  }
  for (Node& node : graph_->nodes) {
    int blocks = 0;
    const auto& all = parameters_.blocks();  // in the order of their offsets
    for (auto block = std::ranges::lower_bound(all, node.first, {}, &Block::offset);
         block != all.end() && block->offset < node.last; ++block) {
      ++blocks;
      if (block->frozen) node.frozen.push_back({block->offset, block->offset + block->stored_size()});
    }
    node.learns = std::ssize(node.frozen) < blocks;
    if (blocks == 0 || node.learns) continue;
    node.layer->freeze();
    statistics_.freeze(node.name);
  }
  if (std::any_of(graph_->nodes.begin(), graph_->nodes.end(), [](const Node& node) { return node.learns; })) return;
  throw ConfigError("train.freeze: all parameters are frozen; there is nothing to train");
}

const Shape& Network::in() const { return graph_->in; }
const Shape& Network::out() const { return graph_->shape(graph_->tensors() - 1); }

WorkspacePlan Network::plan(Index batch, bool training) const {
  return whole_->plan(batch, training ? PassKind::training : PassKind::inference);
}

View Network::forward(const Pass& pass, const Inputs& inputs, const Workspace& workspace) const {
  return whole_->forward(pass, inputs, workspace);
}

MutableView Network::output_gradient(const Workspace& workspace) const { return whole_->output_gradient(workspace); }

void Network::backward(const Pass& pass, const Workspace& workspace, MutableView gradient, kernels::Write write,
                       GradientReady ready) const {
  whole_->backward(pass, workspace, gradient, write, ready);
}

std::vector<FloatRange> Network::steps_at_once() const { return whole_->steps_at_once(); }

Index Network::moments_size() const { return whole_->moments_size(); }

void Network::apply_moments(const Pass& pass, MutableView moments) const { whole_->apply_moments(pass, moments); }

std::vector<LayerRow> Network::rows(Index batch) const {
  std::vector<LayerRow> rows;
  for (const ConfiguredLayer& configured : graph_->configured) {
    LayerRow row{
        .outer = configured.outer, .name = configured.name, .kind = configured.kind, .output = text_of(configured.out)};
    if (configured.node >= 0) fill_row(configured.node, batch, row);
    rows.push_back(row);
  }
  return rows;
}

bool Network::statistics_are_local() const {
  return std::any_of(graph_->nodes.begin(), graph_->nodes.end(),
                     [](const Node& node) { return node.layer->traits().local_statistics; });
}

bool Network::compares_examples(bool local) const {
  return std::any_of(graph_->nodes.begin(), graph_->nodes.end(), [local](const Node& node) {
    const LayerTraits traits = node.layer->traits();
    return traits.compares_examples && traits.local_statistics == local;
  });
}

const Block& Network::tied_block() const {
  return parameters_.block(graph_->nodes.back().layer->weights_of() + ".weight");
}

Index Network::tied_floats() const {
  return graph_->nodes.back().layer->weights_of().empty() ? 0 : tied_block().stored_size();
}

void Network::require_deterministic() const {
  for (const Node& node : graph_->nodes) {
    const bool random = node.layer->traits().random;
    if (!random && node.layer->moments_size() == 0) continue;
    throw ConfigError(fmt::format(
        "model.layers: '{}' {}, but whole-batch methods minimise one function of the parameters; remove the layer{}",
        node.name, random ? "draws random numbers in each pass" : "uses statistics of the batch",
        random ? " or set its rate to 0" : ", or freeze it (train.freeze) after training with another method"));
  }
}

void Network::require_causal() const {
  for (const Node& node : graph_->nodes) {
    if (!node.layer->traits().sees_later_rows) continue;
    throw ConfigError(
        fmt::format("model.layers: in '{}' tokens see later ones (causal = false), among them the one that the model "
                    "is to predict; set causal = true there",
                    node.name));
  }
}

std::vector<std::string> Network::notes() const {
  std::vector<std::string> notes;
  for (const Node& node : graph_->nodes) {
    const std::string note = node.layer->note();
    if (!note.empty() && std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
  }
  Index frozen = 0;
  for (const Block& block : parameters_.blocks()) frozen += block.frozen ? block.size() : 0;
  if (frozen > 0) {
    notes.push_back(fmt::format("{} of {} parameters are frozen", grouped(frozen), grouped(parameters_.parameters())));
  }
  return notes;
}

void Network::fill_row(int i, Index batch, LayerRow& row) const {
  const Node& node = graph_->nodes[static_cast<std::size_t>(i)];
  const MemorySchedule& training = whole_->schedule(PassKind::training);
  const auto slot_of = [&](int tensor) { return training.forward.activation[static_cast<std::size_t>(tensor)]; };
  if (!node.layer->note().empty()) row.kind += ", " + node.layer->note();
  const PieceCost cost = whole_->cost_of(i);
  row.parameters = cost.parameters;
  row.flops = cost.flops();
  if (node.last > node.first && !node.learns) row.kind += ", frozen";
  const Shape& out = node.layer->out();
  if (slot_of(i + 1) != slot_of(node.input) && !node.layer->traits().gives_loss) {
    row.activation = round_up_to_line(backend_.activation_size(out.extent, batch * out.rows));
  }
  row.activation += node.layer->kept_size();
  const kernels::Extent kept = node.layer->kept_of_row();
  if (kept.size() > 0) row.activation += round_up_to_line(backend_.activation_size(kept, batch * out.rows));
}

// A network can be cut before node i, if no node from i on reads a tensor with a smaller number than i. A layer of
// several parts stays whole.
std::vector<int> cuts_of(const Graph& graph) {
  const int nodes = static_cast<int>(graph.nodes.size());
  std::vector<int> cuts;
  int earliest = nodes;  // tensor that nodes from i on read
  for (int i = nodes; i-- > 1;) {
    const Node& node = graph.nodes[static_cast<std::size_t>(i)];
    earliest = std::min(earliest, node.residual < 0 ? node.input : std::min(node.input, node.residual));
    const bool between = !node.inside && node.outer != graph.nodes[static_cast<std::size_t>(i) - 1].outer;
    if (earliest == i && between) cuts.push_back(i);
  }
  std::reverse(cuts.begin(), cuts.end());
  return cuts;
}

std::vector<NodeRange> residual_blocks_of(const Graph& graph) {
  std::vector<int> ends = cuts_of(graph);
  ends.push_back(static_cast<int>(graph.nodes.size()));
  std::vector<NodeRange> blocks;
  int first = 0;
  for (const int last : ends) {
    const auto begin = graph.nodes.begin() + first, end = graph.nodes.begin() + last;
    if (std::any_of(begin, end, [](const Node& node) { return node.residual >= 0; })) blocks.push_back({first, last});
    first = last;
  }
  return blocks;
}

int Network::nodes() const { return static_cast<int>(graph_->nodes.size()); }

std::string Network::first_layer() const { return graph_->nodes.front().outer; }

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
                      .next = graph_->nodes[static_cast<std::size_t>(cut)].outer,
                      .shape = shape,
                      .boundary = shape.rows * shape.extent.size(),
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

void LayerSettings::describe(ConfigVisitor& visitor) {
  std::vector<Variant> variants;
  for (const LayerKind& layer : layer_kinds()) {
    if (inside_residual && layer.form == LayerForm::residual) continue;
    if ((inside_residual || inside_repeat) && layer.form == LayerForm::repeat) continue;
    if (inside_gate && layer.form == LayerForm::gate) continue;
    variants.push_back({layer.name, layer.meaning, {}});
    if (layer.describe == nullptr) continue;
    variants.back().describe = [this, &layer](ConfigVisitor& inner) { layer.describe(*this, inner); };
  }
  visitor.variant({.name = "kind", .meaning = "type of the layer", .required = true}, kind, variants);
  visitor.field(
      {.name = "name", .meaning = "name of the layer's parameters; if left out, kind and number: \"convolution1\""},
      name);
}

void NetworkSettings::describe(ConfigVisitor& visitor) {
  visitor.choice({.name = "loss", .meaning = "loss function that is minimised"}, loss, kLossKinds);
  visitor.field(
      {.name = "delta", .meaning = "for huber: absolute error above which the loss is linear", .range = above(0)},
      delta);
  visitor.require("delta", delta == 1 || loss == LossKind::huber,
                  "delta belongs to loss = \"huber\"; remove it, or use that loss");
  visitor.field({.name = "label_smoothing",
                 .meaning = "label smoothing: share of the target probability that is spread evenly over all classes "
                            "(Szegedy et al. 2016)",
                 .range = at_least(0).below(1)},
                label_smoothing);
  visitor.choice(
      {.name = "winograd",
       .meaning = "on CPUs: how convolutions with kernel = 3 and stride = 1 between multiples of 16 channels "
                  "are computed: tiles of Winograd's method"},
      winograd, kWinogradTiles);
  visitor.list({.name = "layers", .meaning = "the layers, from the inputs to the outputs", .required = true}, layers);
}

}  // namespace unisono::nn
