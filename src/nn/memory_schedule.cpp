// Which tensors of a piece share memory, and when each is needed.
#include <algorithm>
#include <numeric>

#include "graph.hpp"

namespace unisono::nn {
namespace {

/// Simulates the passes moment by moment; opens, shares and extends slots.
class Scheduler {
 public:
  Scheduler(const GraphPiece& piece, PassKind kind)
      : piece_(piece), kind_(kind), nodes_(piece.nodes()), readers_(readers_of(piece.graph)) {
    activations();
    for (int i = 0; i < nodes_; ++i) keep(i);
    for (int i = 0; i < nodes_; ++i) carry(i);
    if (kind != PassKind::inference) gradients();
  }
  MemorySchedule take() { return std::move(schedule_); }

 private:
  const Node& node(int i) const { return piece_.node(i); }
  int forward_moment(int i) const { return i + 1; }
  int loss_moment() const { return nodes_ + 1; }
  int backward_moment(int i) const { return 2 * nodes_ + 1 - i; }
  /// Whether node i has a second half, which computes its part of g; and the last moment at which its inputs are
  /// needed.
  bool has_second_half(int i) const { return kind_ == PassKind::halves && node(i).learns; }
  int last_moment(int i) const { return has_second_half(i) ? 3 * nodes_ + 1 - i : backward_moment(i); }
  int end_moment() const { return 3 * nodes_ + 2; }

  int open(const Slot& slot) {
    schedule_.slots.push_back(slot);
    return static_cast<int>(schedule_.slots.size()) - 1;
  }
  void need(int slot, int moment) {
    int& last = schedule_.slots[static_cast<std::size_t>(slot)].last;
    last = std::max(last, moment);
  }
  int activation(int tensor) const { return schedule_.activation[static_cast<std::size_t>(tensor)]; }

  void activations();
  bool runs_in_place(int i) const;
  void keep(int i);
  void carry(int i);

  // Gradients
  void gradients();
  bool wanted(int tensor) const { return tensor >= 0 && wanted_[static_cast<std::size_t>(piece_.first + tensor)]; }
  int open_activation(int tensor, int moment) {
    const Shape& shape = piece_.shape(tensor);
    const bool stored = tensor == 0 || !piece_.gives_loss(tensor - 1);
    return open(
        {.extent = stored ? shape.extent : kernels::Extent{}, .rows = shape.rows, .first = moment, .last = moment});
  }
  void backward(int i);
  void contribute(int tensor, int slot, int moment, BackwardStep& step);

  GraphPiece piece_;
  PassKind kind_;
  int nodes_;
  std::vector<int> readers_;  // of each tensor of the graph
  MemorySchedule schedule_;
  std::vector<bool> wanted_;   // of each tensor of the graph: whether it depends on trainable parameters
  std::vector<int> gradient_;  // of each tensor: the slot that holds its gradient so far; −1: none yet
  // Of each slot: how many tensors' pending gradients it is, and how many second halves will read it.
  std::vector<int> holders_;
};

void Scheduler::activations() {
  schedule_.activation = {open_activation(0, 0)};
  for (int i = 0; i < nodes_; ++i) {
    const int moment = forward_moment(i);
    need(activation(piece_.input(i)), moment);
    if (piece_.residual(i) >= 0) need(activation(piece_.residual(i)), moment);
    const bool same = runs_in_place(i) || node(i).layer->traits().passes_on;
    schedule_.activation.push_back(same ? activation(piece_.input(i)) : open_activation(i + 1, moment));
  }
  need(activation(nodes_), loss_moment());
}

/// Whether y may overwrite x: no other node reads x, and the node that gave x does not need it for its backward pass.
bool Scheduler::runs_in_place(int i) const {
  const int x = piece_.input(i);
  if (!node(i).layer->traits().in_place || readers_[static_cast<std::size_t>(piece_.first + x)] > 1) return false;
  if (x == 0) return true;
  const LayerTraits before = node(x - 1).layer->traits();
  return !before.keeps_output && !before.passes_on;
}

void Scheduler::keep(int i) {
  const Layer& layer = *node(i).layer;
  const bool training = kind_ != PassKind::inference;
  const int last = training ? last_moment(i) : forward_moment(i);
  const kernels::Extent of_row = layer.kept_of_row();
  const bool keeps = layer.kept_size() > 0 || of_row.size() > 0;
  const Slot slot{.extent = of_row,
                  .rows = layer.out().rows,
                  .floats = layer.kept_size(),
                  .first = forward_moment(i),
                  .last = last};
  schedule_.kept.push_back(keeps ? open(slot) : -1);
  if (!training) return;
  if (layer.traits().keeps_input) need(activation(piece_.input(i)), last);
  if (layer.traits().keeps_output) need(activation(i + 1), last);
}

void Scheduler::carry(int i) {
  const Index size = has_second_half(i) ? node(i).layer->carried_size() : 0;
  schedule_.carried.push_back(
      size == 0 ? -1 : open({.extent = {}, .floats = size, .first = backward_moment(i), .last = last_moment(i)}));
}

void Scheduler::gradients() {
  wanted_ = wanted_gradients(piece_.graph);
  schedule_.backward.resize(static_cast<std::size_t>(nodes_));
  gradient_.assign(static_cast<std::size_t>(nodes_) + 1, -1);
  schedule_.output_gradient = open_activation(nodes_, loss_moment());
  gradient_.back() = schedule_.output_gradient;
  holders_.assign(schedule_.slots.size(), 0);
  holders_.back() = 1;
  for (int i = nodes_; i-- > 0;) {
    if (wanted(i + 1)) backward(i);
  }
  schedule_.input_gradient = wanted(0) ? gradient_.front() : -1;
  if (wanted(0)) need(schedule_.input_gradient, end_moment());
}

void Scheduler::backward(int i) {
  const LayerTraits traits = node(i).layer->traits();
  const int moment = backward_moment(i), x = piece_.input(i), residual = piece_.residual(i);
  BackwardStep& step = schedule_.backward[static_cast<std::size_t>(i)];
  const auto open_here = [&](int tensor) {
    holders_.push_back(0);
    return open_activation(tensor, moment);
  };

  step.dy = gradient_[static_cast<std::size_t>(i) + 1];
  need(step.dy, moment);
  const bool alone = --holders_[static_cast<std::size_t>(step.dy)] == 0;
  if (traits.changes_gradient && !alone) {
    step.copy_of = step.dy;
    step.dy = open_here(i + 1);
  }
  if (has_second_half(i)) {  // which reads dy: until then nobody may overwrite it
    need(step.dy, last_moment(i));
    ++holders_[static_cast<std::size_t>(step.dy)];
  }
  if (wanted(x)) {
    const bool same = traits.shares_gradient || (traits.gradient_in_place && alone && !has_second_half(i));
    step.dx = same ? step.dy : open_here(x);
  }
  const bool shared = step.dx == step.dy;  // then the residual's gradient must not be changed, since it is x's, too
  if (shared) ++holders_[static_cast<std::size_t>(step.dy)];
  if (wanted(residual)) contribute(residual, step.dy, moment, step);
  if (shared) --holders_[static_cast<std::size_t>(step.dy)];
  if (wanted(x)) contribute(x, step.dx, moment, step);
}

/// Adds a slot's values to a tensor's gradient so far.
void Scheduler::contribute(int tensor, int slot, int moment, BackwardStep& step) {
  int& pending = gradient_[static_cast<std::size_t>(tensor)];
  const auto holders = [this](int of) -> int& { return holders_[static_cast<std::size_t>(of)]; };
  if (pending >= 0) {
    need(pending, moment);
    --holders(pending);
    if (holders(slot) == 0) {  // no other tensor's
      step.sums.push_back({pending, slot});
    } else if (holders(pending) == 0) {
      step.sums.push_back({slot, pending});
      slot = pending;
    } else {
      holders_.push_back(0);
      const int sum = open_activation(tensor, moment);
      step.sums.push_back({pending, sum, true});
      step.sums.push_back({slot, sum});
      slot = sum;
    }
  }
  pending = slot;
  ++holders(slot);
}

bool overlap(const Slot& a, const Slot& b) { return a.first <= b.last && b.first <= a.last; }

}  // namespace

MemorySchedule make_memory_schedule(const GraphPiece& piece, PassKind kind) { return Scheduler(piece, kind).take(); }

Arrangement arrange(const std::vector<Slot>& slots, const std::vector<Index>& sizes) {
  std::vector<std::size_t> by_size(slots.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::stable_sort(by_size.begin(), by_size.end(), [&](auto a, auto b) { return sizes[a] > sizes[b]; });

  Arrangement result{std::vector<Index>(slots.size(), 0), 0};
  std::vector<std::size_t> placed;  // ordered by offset
  for (const std::size_t slot : by_size) {
    Index offset = 0;
    for (const std::size_t other : placed) {
      if (!overlap(slots[slot], slots[other])) continue;
      if (result.offsets[other] - offset >= sizes[slot]) break;  // fits into the gap
      offset = std::max(offset, result.offsets[other] + sizes[other]);
    }
    result.offsets[slot] = offset;
    result.floats = std::max(result.floats, offset + sizes[slot]);
    const auto behind = std::upper_bound(placed.begin(), placed.end(), offset,
                                         [&](Index value, std::size_t p) { return value < result.offsets[p]; });
    placed.insert(behind, slot);
  }
  return result;
}

}  // namespace unisono::nn
