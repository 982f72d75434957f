#include "unisono/nn/layer_work.hpp"

#include "graph.hpp"

namespace unisono::nn {
namespace {

/// Lists the passes of all nodes, as Piece runs them.
class Lister {
 public:
  Lister(const Network& network, const kernels::Backend& backend, Index batch, bool at_once)
      : piece_{network.graph(), 0, network.nodes()},
        whole_(network.graph(), backend, 0, piece_.last),
        schedule_(whole_.schedule(PassKind::training)),
        plan_(whole_.plan(batch, PassKind::training)),
        batch_(static_cast<double>(batch)) {
    if (at_once) steps_ = whole_.steps_at_once();
  }
  std::vector<LayerWork> list();

 private:
  StepRange slot(int number) const {
    const auto i = static_cast<std::size_t>(number);
    return {StepVector::workspace, {plan_.offsets[i], plan_.offsets[i] + plan_.sizes[i]}};
  }
  void touch(std::vector<StepRange>& ranges, int number) const {
    if (number >= 0 && plan_.sizes[static_cast<std::size_t>(number)] > 0) ranges.push_back(slot(number));
  }
  void touch_parameters(std::vector<StepRange>& ranges, StepVector of, const Node& node) const {
    if (node.first < node.last) ranges.push_back({of, {node.first, node.last}});
  }
  LayerWork& add(int i, bool is_backward) {
    return work_.emplace_back(
        LayerWork{.node = i, .layer = piece_.node(i).name, .is_backward = is_backward, .reads = {}, .writes = {}});
  }
  void give_gradient(LayerWork& work, const Node& node) const;
  void forward(int i, const ForwardSlots& slots, bool again);
  void recompute(int i);
  void backward(int i);

  GraphPiece piece_;
  Piece whole_;
  const MemorySchedule& schedule_;
  WorkspacePlan plan_;
  double batch_;
  std::vector<FloatRange> steps_;  ///< that backward passes make
  std::vector<LayerWork> work_;
};

std::vector<LayerWork> Lister::list() {
  for (int i = 0; i < piece_.nodes(); ++i) forward(i, schedule_.forward, false);
  for (int i = piece_.nodes(); i-- > 0;) {
    recompute(i);
    backward(i);
  }
  return std::move(work_);
}

void Lister::forward(int i, const ForwardSlots& slots, bool again) {
  const Node& node = piece_.node(i);
  LayerWork& work = add(i, again);  // what is computed anew belongs to the backward pass
  if (node.layer->traits().passes_on) return;
  const PieceCost cost = whole_.cost_of(i);
  work.flops = batch_ * (again ? cost.again : cost.forward);
  touch(work.reads, slots.activation[static_cast<std::size_t>(piece_.input(i))]);
  if (piece_.residual(i) >= 0) touch(work.reads, slots.activation[static_cast<std::size_t>(piece_.residual(i))]);
  touch_parameters(work.reads, StepVector::parameters, node);
  touch(work.writes, slots.output[static_cast<std::size_t>(i)]);
  touch(work.writes, slots.kept[static_cast<std::size_t>(i)]);
}

void Lister::recompute(int i) {
  const NodeRange block = schedule_.block_before(i);
  for (int k = block.first; k < block.last; ++k) {
    if (schedule_.runs_again[static_cast<std::size_t>(k)]) forward(k, schedule_.again, true);
  }
}

/// The gradient of a node's parameters is written, or their step is made.
void Lister::give_gradient(LayerWork& work, const Node& node) const {
  Index first = node.first;
  for (const FloatRange& step : steps_) {
    if (step.first < node.first || step.last > node.last) continue;
    work.step = step;
    if (first < step.first) work.writes.push_back({StepVector::gradient, {first, step.first}});
    first = step.last;
  }
  if (first < node.last) work.writes.push_back({StepVector::gradient, {first, node.last}});
}

void Lister::backward(int i) {
  const auto at = static_cast<std::size_t>(i);
  const BackwardStep& step = schedule_.backward[at];
  if (step.dy < 0) return;
  const Node& node = piece_.node(i);
  const LayerTraits traits = node.layer->traits();
  const ForwardSlots& read = schedule_.again;
  LayerWork& work = add(i, true);
  const PieceCost cost = whole_.cost_of(i);
  work.flops = batch_ * (cost.backward_inputs + (node.learns ? cost.backward_weights : 0));
  touch(work.reads, step.copy_of);
  if (!traits.shares_gradient) {
    if (traits.keeps_input) touch(work.reads, read.activation[static_cast<std::size_t>(piece_.input(i))]);
    if (traits.keeps_output) touch(work.reads, read.output[at]);
    if (traits.multiplies) touch(work.reads, read.activation[static_cast<std::size_t>(piece_.residual(i))]);
    touch(work.reads, read.kept[at]);
    touch(work.reads, step.dy);
    if (step.dx >= 0) touch_parameters(work.reads, StepVector::parameters, node);
    touch(work.writes, step.dx);
    touch(work.writes, step.dresidual);
    if (node.learns) give_gradient(work, node);
  }
  for (const auto& [from, to, is_copy] : step.sums) {
    touch(work.reads, from);
    if (!is_copy) touch(work.reads, to);
    touch(work.writes, to);
  }
}

}  // namespace

std::vector<LayerWork> work_of_step(const Network& network, const kernels::Backend& backend, Index batch,
                                    bool at_once) {
  return Lister(network, backend, batch, at_once).list();
}

}  // namespace unisono::nn
