// Which tensors of a piece share memory, and when each is needed.
#include <algorithm>
#include <numeric>

#include "graph.hpp"

namespace unisono::nn {
namespace {

bool keeps_floats(const Layer& layer) { return layer.kept_size() > 0 || layer.kept_of_row().size() > 0; }

/// When a piece's nodes run; see Slot.
struct Moments {
  std::vector<int> forward, again, backward, second_half;  ///< of each node; `again`: of blocks that are computed anew
  int loss = 0, end = 0;
};

/// Simulates the passes moment by moment; opens, shares and extends slots.
class Scheduler {
 public:
  Scheduler(const GraphPiece& piece, PassKind kind)
      : piece_(piece), kind_(kind), nodes_(piece.nodes()), readers_(readers_of(piece.graph)) {
    if (is_training()) wanted_ = wanted_gradients(piece_.graph);
    choose_recomputed();
    number_moments();
    activations();
    for (int i = 0; i < nodes_; ++i) keep(i);
    for (int i = 0; i < nodes_; ++i) carry(i);
    if (is_training()) gradients();
  }
  MemorySchedule take() { return std::move(schedule_); }

 private:
  const Node& node(int i) const { return piece_.node(i); }
  bool is_training() const { return kind_ != PassKind::inference; }
  void choose_recomputed();
  void number_moments();
  int forward_moment(int i) const { return moments_.forward[static_cast<std::size_t>(i)]; }
  int backward_moment(int i) const { return moments_.backward[static_cast<std::size_t>(i)]; }
  int again_moment(int i) const { return moments_.again[static_cast<std::size_t>(i)]; }
  bool runs_again(int i) const { return schedule_.runs_again[static_cast<std::size_t>(i)]; }
  /// Whether node i has a second half, which computes its part of g; and the last moment at which its inputs are
  /// needed.
  bool has_second_half(int i) const { return kind_ == PassKind::halves && node(i).learns; }
  int last_moment(int i) const {
    return has_second_half(i) ? moments_.second_half[static_cast<std::size_t>(i)] : backward_moment(i);
  }

  int open(const Slot& slot) {
    schedule_.slots.push_back(slot);
    return static_cast<int>(schedule_.slots.size()) - 1;
  }
  void need(int slot, int moment) {
    int& last = schedule_.slots[static_cast<std::size_t>(slot)].last;
    last = std::max(last, moment);
  }
  static int at(const std::vector<int>& slots, int tensor) { return slots[static_cast<std::size_t>(tensor)]; }
  int activation(int tensor) const { return at(schedule_.forward.activation, tensor); }

  void activations();
  void activations_again(const NodeRange& block);
  void read(int i, const std::vector<int>& activation, int moment);
  int open_output(int i, const std::vector<int>& activation, int moment);
  bool runs_in_place(int i) const;
  bool enters_recomputed(int tensor) const;
  void keep(int i);
  int open_kept(int i, int first, int last);
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
  Moments moments_;
  MemorySchedule schedule_;
  std::vector<bool> wanted_;   // of each tensor of the graph: whether it depends on trainable parameters
  std::vector<int> gradient_;  // of each tensor: the slot that holds its gradient so far; −1: none yet
  // Of each slot: how many tensors' pending gradients it is, and how many second halves will read it.
  std::vector<int> holders_;
};

/// The residual blocks of the piece that have a backward pass, and which of their nodes it needs once more: those
/// whose outputs or kept floats it reads, and those before them.
void Scheduler::choose_recomputed() {
  schedule_.runs_again.assign(static_cast<std::size_t>(nodes_), false);
  if (!piece_.graph.recomputes_blocks || !is_training()) return;
  for (const NodeRange& of_graph : residual_blocks_of(piece_.graph)) {
    const NodeRange block{of_graph.first - piece_.first, of_graph.last - piece_.first};
    if (block.first < 0 || block.last > nodes_ || !wanted(block.last)) continue;
    schedule_.recomputed.push_back(block);
    std::vector<bool> read(static_cast<std::size_t>(block.last) + 1);  // of each tensor
    for (int i = block.last; i-- > block.first;) {
      const Layer& layer = *node(i).layer;
      const LayerTraits traits = layer.traits();
      const bool keeps = traits.keeps_output || keeps_floats(layer);
      const bool runs = (keeps && wanted(i + 1)) || read[static_cast<std::size_t>(i) + 1];
      schedule_.runs_again[static_cast<std::size_t>(i)] = runs;
      if (runs || (traits.keeps_input && wanted(i + 1))) read[static_cast<std::size_t>(piece_.input(i))] = true;
      if (piece_.residual(i) >= 0 && (runs || (traits.multiplies && wanted(i + 1)))) {
        read[static_cast<std::size_t>(piece_.residual(i))] = true;
      }
    }
  }
}

void Scheduler::number_moments() {
  int moment = 0;
  const auto count = static_cast<std::size_t>(nodes_);
  for (int i = 0; i < nodes_; ++i) moments_.forward.push_back(++moment);
  moments_.loss = ++moment;
  moments_.again.assign(count, -1);
  moments_.backward.assign(count, 0);
  auto block = schedule_.recomputed.rbegin();
  for (int i = nodes_; i-- > 0;) {
    if (block != schedule_.recomputed.rend() && i == block->last - 1) {
      for (int again = block->first; again < block->last; ++again) {
        moments_.again[static_cast<std::size_t>(again)] = ++moment;
      }
      ++block;
    }
    moments_.backward[static_cast<std::size_t>(i)] = ++moment;
  }
  moments_.second_half.assign(count, 0);
  for (int i = nodes_; i-- > 0;) moments_.second_half[static_cast<std::size_t>(i)] = ++moment;
  moments_.end = ++moment;
}

void Scheduler::activations() {
  std::vector<int>& slots = schedule_.forward.activation;
  slots = {open_activation(0, 0)};
  for (int i = 0; i < nodes_; ++i) {
    read(i, slots, forward_moment(i));
    schedule_.forward.output.push_back(open_output(i, slots, forward_moment(i)));
    slots.push_back(schedule_.forward.output.back());
  }
  need(activation(nodes_), moments_.loss);
  schedule_.again = schedule_.forward;
  for (const NodeRange& block : schedule_.recomputed) activations_again(block);
}

/// What comes behind the block reads the outputs that it gave the first time.
void Scheduler::activations_again(const NodeRange& block) {
  std::vector<int>& slots = schedule_.again.activation;
  for (int i = block.first; i < block.last; ++i) {
    if (!runs_again(i)) continue;
    read(i, slots, again_moment(i));
    const int output = open_output(i, slots, again_moment(i));
    schedule_.again.output[static_cast<std::size_t>(i)] = output;
    if (i + 1 < block.last) slots[static_cast<std::size_t>(i) + 1] = output;
  }
}

/// Node i reads its inputs.
void Scheduler::read(int i, const std::vector<int>& activation, int moment) {
  need(at(activation, piece_.input(i)), moment);
  if (piece_.residual(i) >= 0) need(at(activation, piece_.residual(i)), moment);
}

/// The slot of node i's outputs.
int Scheduler::open_output(int i, const std::vector<int>& activation, int moment) {
  const bool same = runs_in_place(i) || node(i).layer->traits().passes_on;
  return same ? at(activation, piece_.input(i)) : open_activation(i + 1, moment);
}

/// Whether y may overwrite x: no other node reads x, the node that gave x does not need it for its backward pass, and
/// no residual block begins with x anew.
bool Scheduler::runs_in_place(int i) const {
  const int x = piece_.input(i);
  if (!node(i).layer->traits().in_place || readers_[static_cast<std::size_t>(piece_.first + x)] > 1) return false;
  if (enters_recomputed(x)) return false;
  if (x == 0) return true;
  const LayerTraits before = node(x - 1).layer->traits();
  return !before.keeps_output && !before.passes_on;
}

bool Scheduler::enters_recomputed(int tensor) const {
  return std::ranges::any_of(schedule_.recomputed, [=](const NodeRange& block) { return block.first == tensor; });
}

int Scheduler::open_kept(int i, int first, int last) {
  const Layer& layer = *node(i).layer;
  if (!keeps_floats(layer)) return -1;
  return open({.extent = layer.kept_of_row(),
               .rows = layer.out().rows,
               .floats = layer.kept_size(),
               .first = first,
               .last = last});
}

void Scheduler::keep(int i) {
  const int forward = forward_moment(i), last = is_training() ? last_moment(i) : forward;
  const int kept = open_kept(i, forward, runs_again(i) ? forward : last);
  schedule_.forward.kept.push_back(kept);
  schedule_.again.kept.push_back(runs_again(i) ? open_kept(i, again_moment(i), last) : kept);
  if (!is_training()) return;
  const LayerTraits traits = node(i).layer->traits();
  if (traits.keeps_input) need(at(schedule_.again.activation, piece_.input(i)), last);
  if (traits.keeps_output) need(at(schedule_.again.output, i), last);
  if (traits.multiplies) need(at(schedule_.again.activation, piece_.residual(i)), last);
}

void Scheduler::carry(int i) {
  const Index size = has_second_half(i) ? node(i).layer->carried_size() : 0;
  schedule_.carried.push_back(
      size == 0 ? -1 : open({.extent = {}, .floats = size, .first = backward_moment(i), .last = last_moment(i)}));
}

void Scheduler::gradients() {
  schedule_.backward.resize(static_cast<std::size_t>(nodes_));
  gradient_.assign(static_cast<std::size_t>(nodes_) + 1, -1);
  schedule_.output_gradient = open_activation(nodes_, moments_.loss);
  gradient_.back() = schedule_.output_gradient;
  holders_.assign(schedule_.slots.size(), 0);
  holders_.back() = 1;
  for (int i = nodes_; i-- > 0;) {
    if (wanted(i + 1)) backward(i);
  }
  schedule_.input_gradient = wanted(0) ? gradient_.front() : -1;
  if (wanted(0)) need(schedule_.input_gradient, moments_.end);
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
    const bool is_residuals = wanted(residual) && !traits.multiplies;  // whether dy is the residual's gradient, too
    const bool overwrites = traits.gradient_in_place && alone && !is_residuals && !has_second_half(i);
    const bool same = traits.shares_gradient || overwrites;
    step.dx = same ? step.dy : open_here(x);
  }
  const bool shared = step.dx == step.dy;  // then the residual's gradient must not be changed, since it is x's, too
  if (shared) ++holders_[static_cast<std::size_t>(step.dy)];
  if (wanted(residual)) {
    if (traits.multiplies) step.dresidual = open_here(residual);
    contribute(residual, traits.multiplies ? step.dresidual : step.dy, moment, step);
  }
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

NodeRange MemorySchedule::block_before(int i) const {
  const auto block = std::ranges::find(recomputed, i + 1, &NodeRange::last);
  return block == recomputed.end() ? NodeRange{0, 0} : *block;
}

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
