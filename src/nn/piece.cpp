#include "unisono/nn/piece.hpp"

#include <array>
#include <cassert>
#include <optional>

#include "graph.hpp"
#include "unisono/base/clock.hpp"

namespace unisono::nn {
namespace {

/// A piece may have no parameters, and `pass.parameters` may be empty then.
void begin(const Pass& pass) {
  if (!pass.parameters.empty()) pass.backend.begin_pass(pass.parameters);
}

/// A layer's part of the moments of a piece; empty where there are none.
MutableView moments_of(const Node& node, Index first, MutableView moments) {
  if (moments.empty()) return {};
  return part(moments, {node.moments.first - first, node.moments.last - first});
}

}  // namespace

struct Piece::Structure {
  GraphPiece graph;
  std::array<MemorySchedule, 3> schedules;

  const Node& front() const { return graph.node(0); }
  const Node& back() const { return graph.node(graph.nodes() - 1); }
};

PieceCost& PieceCost::operator+=(const PieceCost& more) {
  forward += more.forward;
  backward_inputs += more.backward_inputs;
  backward_weights += more.backward_weights;
  again += more.again;
  parameters += more.parameters;
  return *this;
}

Piece::Piece(const Graph& graph, const kernels::Backend& backend, int first, int last) : backend_(backend) {
  const GraphPiece piece{graph, first, last};
  structure_.reset(
      new Structure{piece,
                    {make_memory_schedule(piece, PassKind::inference), make_memory_schedule(piece, PassKind::training),
                     make_memory_schedule(piece, PassKind::halves)}});
}

Piece::Piece(Piece&&) noexcept = default;
Piece::~Piece() = default;

const Shape& Piece::in() const { return structure_->graph.shape(0); }
const Shape& Piece::out() const { return structure_->graph.shape(structure_->graph.nodes()); }

bool Piece::gives_loss() const { return structure_->graph.gives_loss(structure_->graph.nodes() - 1); }

FloatRange Piece::parameters() const { return {structure_->front().first, structure_->back().last}; }
FloatRange Piece::statistics() const {
  return {structure_->front().statistics.first, structure_->back().statistics.last};
}

const MemorySchedule& Piece::schedule(PassKind kind) const {
  return structure_->schedules[static_cast<std::size_t>(kind)];
}

PieceCost Piece::cost() const {
  PieceCost cost;
  for (int i = 0; i < structure_->graph.nodes(); ++i) cost += cost_of(i);
  return cost;
}

// A product forward is one multiply-add, 2 flops; backward it is one more for the weights' gradient and, unless the
// layer is the first trainable one, one for that of the inputs. Frozen layers before that have no backward pass.
PieceCost Piece::cost_of(int node) const {
  const Layer& layer = *structure_->graph.node(node).layer;
  const BackwardStep& step = schedule(PassKind::training).backward[static_cast<std::size_t>(node)];
  const double products = 2 * layer.products();
  return {.forward = products,
          .backward_inputs = step.dx >= 0 ? products : 0,
          .backward_weights = step.dy >= 0 ? products : 0,
          .again = schedule(PassKind::training).runs_again[static_cast<std::size_t>(node)] ? products : 0,
          .parameters = structure_->graph.node(node).parameters};
}

bool Piece::gives_input_gradient() const { return schedule(PassKind::training).input_gradient >= 0; }

WorkspacePlan Piece::plan(Index batch, PassKind kind) const {
  const std::vector<Slot>& slots = schedule(kind).slots;
  WorkspacePlan plan;
  plan.batch = batch;
  plan.kind = kind;
  for (const Slot& slot : slots) {
    plan.sizes.push_back(
        round_up_to_line(slot.floats > 0 ? slot.floats : backend_.activation_size(slot.extent, batch * slot.rows)));
  }
  auto [offsets, floats] = arrange(slots, plan.sizes);
  plan.offsets = std::move(offsets);
  plan.floats = floats;
  return plan;
}

/// A slot's memory; empty for −1.
MutableView Piece::slot(const Workspace& workspace, int number) const {
  if (number < 0) return {};
  const auto i = static_cast<std::size_t>(number);
  return workspace.memory.subspan(static_cast<std::size_t>(workspace.plan.offsets[i]),
                                  static_cast<std::size_t>(workspace.plan.sizes[i]));
}

MutableView Piece::input(const Workspace& workspace) const {
  return slot(workspace, schedule(workspace.plan.kind).forward.activation.front());
}
MutableView Piece::output_gradient(const Workspace& workspace) const {
  return slot(workspace, schedule(workspace.plan.kind).output_gradient);
}
View Piece::input_gradient(const Workspace& workspace) const {
  return slot(workspace, schedule(workspace.plan.kind).input_gradient);
}

void Piece::load(const Pass& pass, const Inputs& inputs, MutableView x) const {
  if (in().vocabulary > 0) {
    pass.backend.load_tokens(inputs.tokens, x);
  } else if (inputs.kept != nullptr) {
    inputs.kept->load(pass.examples, inputs.movements, x);
  } else {
    pass.backend.load(in().extent, pass.batch, inputs.values, x);
  }
}

View Piece::forward(const Pass& pass, const Inputs& inputs, const Workspace& workspace) const {
  begin(pass);
  if (pass.batch > 0) load(pass, inputs, input(workspace));
  return run_forward(pass, workspace);
}

View Piece::forward(const Pass& pass, const Workspace& workspace) const {
  begin(pass);
  return run_forward(pass, workspace);
}

View Piece::run_forward(const Pass& pass, const Workspace& workspace) const {
  assert(workspace.plan.batch == pass.batch && (workspace.plan.kind != PassKind::inference) == pass.training);
  const ForwardSlots& slots = schedule(workspace.plan.kind).forward;
  for (int i = 0; i < structure_->graph.nodes(); ++i) {
    std::optional<ScopedTimer> timer;
    if (pass.seconds != nullptr) timer.emplace(pass.seconds->forward[static_cast<std::size_t>(i)]);
    run_forward(i, pass, workspace, slots);
  }
  return slot(workspace, slots.activation.back());
}

void Piece::run_forward(int i, const Pass& pass, const Workspace& workspace, const ForwardSlots& slots) const {
  const GraphPiece& graph = structure_->graph;
  const Node& node = graph.node(i);
  if (pass.batch == 0 && !node.layer->traits().collective) return;
  const auto tensor = [&](int number) {
    return number < 0 ? MutableView{} : slot(workspace, slots.activation[static_cast<std::size_t>(number)]);
  };
  const MutableView moments = pass.training ? pass.moments : MutableView{};
  node.layer->forward(pass, {.x = tensor(graph.input(i)),
                             .residual = tensor(graph.residual(i)),
                             .y = slot(workspace, slots.output[static_cast<std::size_t>(i)]),
                             .kept = slot(workspace, slots.kept[static_cast<std::size_t>(i)]),
                             .moments = moments_of(node, structure_->front().moments.first, moments)});
}

/// Runs the nodes once more that node i's backward pass needs anew.
void Piece::recompute(int i, const Pass& pass, const Workspace& workspace) const {
  const MemorySchedule& schedule = this->schedule(workspace.plan.kind);
  const NodeRange block = schedule.block_before(i);
  if (block.first == block.last) return;
  Pass again = pass;
  again.updates_statistics = false;
  again.moments = {};
  for (int k = block.first; k < block.last; ++k) {
    if (schedule.runs_again[static_cast<std::size_t>(k)]) run_forward(k, again, workspace, schedule.again);
  }
}

void Piece::backward(const Pass& pass, const Workspace& workspace, MutableView gradient, kernels::Write write,
                     GradientReady ready) const {
  assert(workspace.plan.kind == PassKind::training);
  all_backward(pass, workspace, {gradient, write}, Half::both, ready);
}

void Piece::backward_inputs(const Pass& pass, const Workspace& workspace) const {
  assert(workspace.plan.kind == PassKind::halves);
  for (int i = structure_->graph.nodes(); i-- > 0;) {
    recompute(i, pass, workspace);
    run_backward(i, pass, workspace, {}, Half::inputs);
  }
}

void Piece::backward_weights(const Pass& pass, const Workspace& workspace, MutableView gradient, kernels::Write write,
                             GradientReady ready) const {
  assert(workspace.plan.kind == PassKind::halves);
  all_backward(pass, workspace, {gradient, write}, Half::weights, ready);
}

/// The passes of all nodes that compute parts of g.
void Piece::all_backward(const Pass& pass, const Workspace& workspace, const Gradient& gradient, Half half,
                         GradientReady ready) const {
  const auto held = [&](const FloatRange& range) {
    return part(gradient.values, {range.first - pass.first_parameter, range.last - pass.first_parameter});
  };
  if (pass.batch == 0 && gradient.write == kernels::Write::overwrite) pass.backend.clear(held(parameters()));
  Index final_from = parameters().last;  // g is final from here on
  for (int i = structure_->graph.nodes(); i-- > 0;) {
    const Node& node = structure_->graph.node(i);
    {
      std::optional<ScopedTimer> timer;
      if (pass.seconds != nullptr) timer.emplace(pass.seconds->backward[static_cast<std::size_t>(i)]);
      if (half == Half::both) recompute(i, pass, workspace);
      run_backward(i, pass, workspace, gradient, half);
    }
    for (const FloatRange& frozen : node.frozen) pass.backend.clear(held(frozen));
    if (node.first == node.last) continue;
    if (ready) ready(node.first, final_from);
    final_from = node.first;
  }
}

bool Piece::runs_backward(int i, const Pass& pass, Half half) const {
  const auto at = static_cast<std::size_t>(i);
  const Node& node = structure_->graph.node(i);
  const bool collective = node.layer->traits().collective;
  const MemorySchedule& halves = schedule(PassKind::halves);
  switch (half) {
    case Half::both:
      return pass.batch > 0 || collective;
    case Half::weights:
      return node.learns && pass.batch > 0;
    default:
      break;
  }
  if (pass.batch == 0) return collective;
  return halves.backward[at].dx >= 0 || node.residual >= 0 || halves.carried[at] >= 0 || collective;
}

void Piece::run_backward(int i, const Pass& pass, const Workspace& workspace, const Gradient& gradient,
                         Half half) const {
  const GraphPiece& graph = structure_->graph;
  const MemorySchedule& schedule = this->schedule(workspace.plan.kind);
  const auto at = static_cast<std::size_t>(i);
  const BackwardStep& step = schedule.backward[at];
  if (step.dy < 0) return;
  const ForwardSlots& read = schedule.again;
  if (half != Half::weights && step.copy_of >= 0 && pass.batch > 0) {
    copy(pass, workspace, step.copy_of, step.dy);
  }
  if (runs_backward(i, pass, half)) {
    const LayerTraits traits = graph.node(i).layer->traits();
    const auto x = static_cast<std::size_t>(graph.input(i));
    const int residual = traits.multiplies ? read.activation[static_cast<std::size_t>(graph.residual(i))] : -1;
    Pass own = pass;
    if (!graph.node(i).frozen.empty()) own.step = nullptr;
    graph.node(i).layer->backward(own, {.x = traits.keeps_input ? slot(workspace, read.activation[x]) : MutableView{},
                                        .y = traits.keeps_output ? slot(workspace, read.output[at]) : MutableView{},
                                        .kept = slot(workspace, read.kept[at]),
                                        .dy = slot(workspace, step.dy),
                                        .dx = half == Half::weights ? MutableView{} : slot(workspace, step.dx),
                                        .residual = slot(workspace, residual),
                                        .dresidual = slot(workspace, step.dresidual),
                                        .carried = slot(workspace, schedule.carried[at]),
                                        .gradient = gradient.values,
                                        .write = gradient.write});
  }
  if (half != Half::weights && pass.batch > 0) add_contributions(i, pass, workspace);
}

/// The same extent in both slots: to = from.
void Piece::copy(const Pass& pass, const Workspace& workspace, int from, int to) const {
  const Slot& of = schedule(workspace.plan.kind).slots[static_cast<std::size_t>(to)];
  pass.backend.activation_forward(kernels::Activation::none, of.extent, pass.batch * of.rows, slot(workspace, from),
                                  slot(workspace, to));
}

/// Adds up the gradients from several readers of a tensor.
void Piece::add_contributions(int i, const Pass& pass, const Workspace& workspace) const {
  const MemorySchedule& schedule = this->schedule(workspace.plan.kind);
  for (const auto& [from, to, is_copy] : schedule.backward[static_cast<std::size_t>(i)].sums) {
    if (is_copy) {
      copy(pass, workspace, from, to);
    } else {
      const Slot& of = schedule.slots[static_cast<std::size_t>(to)];
      pass.backend.add(of.extent, pass.batch * of.rows, slot(workspace, from), slot(workspace, to));
    }
  }
}

std::vector<FloatRange> Piece::steps_at_once() const {
  std::vector<FloatRange> ranges;
  for (int i = 0; i < structure_->graph.nodes(); ++i) {
    const Node& node = structure_->graph.node(i);
    const FloatRange range = node.layer->steps_at_once(backend_);
    if (node.frozen.empty() && range.first < range.last) ranges.push_back(range);
  }
  return ranges;
}

Index Piece::moments_size() const { return structure_->back().moments.last - structure_->front().moments.first; }

void Piece::apply_moments(const Pass& pass, MutableView moments) const {
  const GraphPiece& graph = structure_->graph;
  for (int i = 0; i < graph.nodes(); ++i) {
    const Node& node = graph.node(i);
    if (node.moments.first == node.moments.last) continue;
    node.layer->apply_moments(pass, moments_of(node, structure_->front().moments.first, moments));
  }
}

}  // namespace unisono::nn
