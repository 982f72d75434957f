#include "unisono/nn/network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "graph.hpp"
#include "memory_schedule.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/text.hpp"

namespace unisono::nn {
namespace {

/// A slot's memory; empty for −1.
MutableView view(const Workspace& workspace, int slot) {
  if (slot < 0) return {};
  const auto i = static_cast<std::size_t>(slot);
  return workspace.memory.subspan(static_cast<std::size_t>(workspace.plan.offsets[i]),
                                  static_cast<std::size_t>(workspace.plan.sizes[i]));
}

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
  fuse(*graph_);
  for (Node& node : graph_->nodes) {
    node.first = parameters_.size();
    node.layer->declare(node.name, backend, parameters_, statistics_);
    node.last = parameters_.size();
  }
  if (parameters_.size() > 0) freeze(patterns);
  training_ = std::make_unique<MemorySchedule>(make_memory_schedule(*graph_, true));
  inference_ = std::make_unique<MemorySchedule>(make_memory_schedule(*graph_, false));
}

Network::Network(const NetworkSettings& settings, const kernels::Extent& in, const kernels::Backend& backend,
                 bool steps_together, const std::vector<std::string>& patterns)
    : Network(std::make_unique<Graph>(build_graph(settings, {in}, steps_together)), backend, patterns) {
  if (parameters_.size() == 0) throw ConfigError("model.layers: no layer has parameters; there is nothing to train");
}

std::unique_ptr<Network> Network::up_to(const std::string& layer, const NetworkSettings& settings,
                                        const kernels::Extent& in, const kernels::Backend& backend) {
  auto graph = std::make_unique<Graph>(build_graph(settings, {in}, /*steps_together=*/true));
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
    for (const Block& block : parameters_.blocks()) {
      if (block.offset < node.first || block.offset >= node.last) continue;
      ++blocks;
      if (block.frozen) node.frozen.push_back({block.offset, block.offset + block.stored_size()});
    }
    node.learns = std::ssize(node.frozen) < blocks;
    if (blocks == 0 || node.learns) continue;
    node.layer->freeze();
    statistics_.freeze(node.name);
  }
  if (std::any_of(graph_->nodes.begin(), graph_->nodes.end(), [](const Node& node) { return node.learns; })) return;
  throw ConfigError("train.freeze: all parameters are frozen; there is nothing to train");
}

const kernels::Extent& Network::in() const { return graph_->in.extent; }
const Shape& Network::out() const { return graph_->shape(graph_->tensors() - 1); }

WorkspacePlan Network::plan(Index batch, bool training) const {
  const std::vector<Slot>& slots = (training ? *training_ : *inference_).slots;
  WorkspacePlan plan;
  plan.batch = batch;
  plan.training = training;
  for (const Slot& slot : slots) {
    plan.sizes.push_back(
        round_up_to_line(slot.floats > 0 ? slot.floats : backend_.activation_size(slot.extent, batch)));
  }
  auto [offsets, floats] = arrange(slots, plan.sizes);
  plan.offsets = std::move(offsets);
  plan.floats = floats;
  return plan;
}

View Network::forward(const Pass& pass, const Inputs& inputs, const Workspace& workspace) const {
  assert(workspace.plan.batch == pass.batch && workspace.plan.training == pass.training);
  const MemorySchedule& schedule = pass.training ? *training_ : *inference_;
  const auto tensor = [&](int number) {
    return number < 0 ? MutableView{} : view(workspace, schedule.activation[static_cast<std::size_t>(number)]);
  };
  pass.backend.begin_pass(pass.parameters);
  if (pass.batch > 0 && inputs.kept != nullptr) {
    inputs.kept->load(pass.examples, inputs.movements, tensor(0));
  } else if (pass.batch > 0) {
    pass.backend.load(in(), pass.batch, inputs.values, tensor(0));
  }
  for (std::size_t i = 0; i < graph_->nodes.size(); ++i) {
    const Node& node = graph_->nodes[i];
    if (pass.batch == 0 && !node.layer->traits().collective) continue;
    node.layer->forward(pass, {.x = tensor(node.input),
                               .residual = tensor(node.residual),
                               .y = tensor(static_cast<int>(i) + 1),
                               .kept = view(workspace, schedule.kept[i])});
  }
  return tensor(graph_->tensors() - 1);
}

MutableView Network::output_gradient(const Workspace& workspace) const {
  return view(workspace, training_->output_gradient);
}

void Network::backward(const Pass& pass, const Workspace& workspace, MutableView gradient, kernels::Write write,
                       const std::function<void(Index, Index)>& ready) const {
  if (pass.batch == 0 && write == kernels::Write::overwrite) pass.backend.clear(gradient);
  Index final_from = parameters_.size();  // g is final from here on
  for (int i = static_cast<int>(graph_->nodes.size()); i-- > 0;) {
    const Node& node = graph_->nodes[static_cast<std::size_t>(i)];
    backward_node(i, pass, workspace, gradient, write);
    for (const FloatRange& frozen : node.frozen) pass.backend.clear(part(gradient, frozen));
    if (node.first == node.last) continue;
    if (ready) ready(node.first, final_from);
    final_from = node.first;
  }
}

void Network::backward_node(int i, const Pass& pass, const Workspace& workspace, MutableView gradient,
                            kernels::Write write) const {
  const Node& node = graph_->nodes[static_cast<std::size_t>(i)];
  const BackwardStep& step = training_->backward[static_cast<std::size_t>(i)];
  const LayerTraits traits = node.layer->traits();
  if (step.dy < 0 || (pass.batch == 0 && !traits.collective)) return;

  const auto tensor = [&](int number) {
    return view(workspace, training_->activation[static_cast<std::size_t>(number)]);
  };
  const auto copy = [&](int from, int to) {
    pass.backend.activation_forward(kernels::Activation::none, training_->slots[static_cast<std::size_t>(to)].extent,
                                    pass.batch, view(workspace, from), view(workspace, to));
  };
  if (step.copy_of >= 0 && pass.batch > 0) copy(step.copy_of, step.dy);
  node.layer->backward(pass, {.x = traits.keeps_input ? tensor(node.input) : MutableView{},
                              .y = traits.keeps_output ? tensor(i + 1) : MutableView{},
                              .kept = view(workspace, training_->kept[static_cast<std::size_t>(i)]),
                              .dy = view(workspace, step.dy),
                              .dx = view(workspace, step.dx),
                              .gradient = gradient,
                              .write = write});
  if (pass.batch == 0) return;
  for (const auto& [from, to, is_copy] : step.sums) {
    if (is_copy) {
      copy(from, to);
    } else {
      pass.backend.add(training_->slots[static_cast<std::size_t>(to)].extent, pass.batch, view(workspace, from),
                       view(workspace, to));
    }
  }
}

std::vector<LayerRow> Network::rows(Index batch) const {
  std::vector<LayerRow> rows;
  for (const ConfiguredLayer& configured : graph_->configured) {
    LayerRow row{.name = configured.name, .kind = configured.kind, .output = text_of(configured.out)};
    if (configured.node >= 0) fill_row(configured.node, batch, row);
    rows.push_back(row);
  }
  return rows;
}

bool Network::statistics_are_local() const {
  return std::any_of(graph_->nodes.begin(), graph_->nodes.end(),
                     [](const Node& node) { return node.layer->traits().local_statistics; });
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

// A product forward is one multiply-add, 2 flops; backward it is one more for the weights' gradient and, unless the
// layer is the first that learns, one for that of the inputs. Frozen layers before that have no backward pass.
void Network::fill_row(int i, Index batch, LayerRow& row) const {
  const Node& node = graph_->nodes[static_cast<std::size_t>(i)];
  const auto slot_of = [&](int tensor) { return training_->activation[static_cast<std::size_t>(tensor)]; };
  if (!node.layer->note().empty()) row.kind += ", " + node.layer->note();
  for (const Block& block : parameters_.blocks()) {
    if (block.offset >= node.first && block.offset < node.last) row.parameters += block.size();
  }
  const BackwardStep& step = training_->backward[static_cast<std::size_t>(i)];
  row.flops = node.layer->products() * (2 + (step.dy >= 0 ? 2 : 0) + (step.dx >= 0 ? 2 : 0));
  if (node.last > node.first && !node.learns) row.kind += ", frozen";
  if (slot_of(i + 1) != slot_of(node.input)) {
    row.activation = round_up_to_line(backend_.activation_size(node.layer->out().extent, batch));
  }
  row.activation += node.layer->kept_size();
}

}  // namespace unisono::nn
