#include "window_operations.hpp"

#include <algorithm>

namespace unisono::comm::mpi {
namespace {

/// Slices that begin at cache lines if the span does, so that no line is written by two ranks.
Slice aligned_slice(Index n, int number, int count) {
  constexpr Index kLine = kAlignmentBytes / sizeof(float);
  const Slice lines = slice_of((n + kLine - 1) / kLine, number, count);
  return {std::min(n, lines.first * kLine), std::min(n, lines.last * kLine)};
}

/// Sums a slice over all parts and writes it to the parts `to`.
void add(const WindowSpan& span, const Slice& slice, std::span<float* const> to) {
  std::vector<const float*> inputs;
  std::vector<float*> targets;
  for (const float* part : span.parts) inputs.push_back(part + slice.first);
  for (float* part : to) targets.push_back(part + slice.first);
  combine_in_order<float>(inputs, targets, slice.last - slice.first, Sum{});
}

/// The part of one rank, as a list.
std::span<float* const> part_of(const WindowSpan& span, int rank) {
  return std::span<float* const>(span.parts).subspan(static_cast<std::size_t>(rank), 1);
}

/// Copies one rank's slice to all other parts.
void spread(const WindowSpan& span, const Slice& slice, int rank) {
  const float* const source = span.parts[static_cast<std::size_t>(rank)];
  for (float* part : span.parts) {
    if (part != source) std::copy(source + slice.first, source + slice.last, part + slice.first);
  }
}

}  // namespace

bool NodeOperation::advance() {
  if (!did_work_) {
    if (!all_arrived() || board_.my(&Board::RankFlags::worked) < previous_) return false;
    board_.check_signatures(sequence_);
    work();
    board_.mark(&Board::RankFlags::worked, sequence_);
    did_work_ = true;
  }
  return board_.reached(&Board::RankFlags::worked, sequence_, board_.size(), worked_);
}

void NodeSum::work() { add(span_, aligned_slice(span_.size, board().rank(), board().size()), span_.parts); }

void NodeTreeSum::work() {
  const WindowSpan& sum = spans_.front();
  const Slice slice = aligned_slice(sum.size, board().rank(), board().size());
  std::vector<const float*> inputs;
  std::vector<float*> targets;
  for (const TreeSum::Input& input : order_.inputs) {
    const WindowSpan& span = spans_[static_cast<std::size_t>(input.vector)];
    inputs.push_back(span.parts[static_cast<std::size_t>(input.rank)] + slice.first);
  }
  for (float* part : sum.parts) targets.push_back(part + slice.first);
  combine_in_tree(inputs, order_.program, targets, slice.last - slice.first);
}

void NodeScatter::work() {
  const int rank = board().rank();
  add(span_, slice_of(span_.size, rank, board().size()), part_of(span_, rank));
}

void NodeGather::work() { spread(span_, slice_of(span_.size, board().rank(), board().size()), board().rank()); }

void NodesSum::work() {
  // The sum of this node goes to the ranks that exchange it with other nodes. If all ranks do, each needs only its own
  // slice.
  const bool all_carry = lanes_.count == board().size();
  const std::span<float* const> parts(span_.parts);
  add(span_, aligned_slice(span_.size, board().rank(), board().size()),
      all_carry ? part_of(span_, board().rank()) : parts.first(static_cast<std::size_t>(lanes_.count)));
}

bool NodesSum::advance() {
  if (!node_is_done_) {
    if (!NodeOperation::advance()) return false;
    node_is_done_ = true;
  }
  if (carries() && !carried_mine_) {
    if (!carry()) return false;
    carried_mine_ = true;
  }
  return board().reached(&Board::RankFlags::carried, sequence(), lanes_.count, carried_);
}

bool NodesSum::carry() {
  const Slice slice = aligned_slice(span_.size, board().rank(), lanes_.count);
  if (!between_nodes_) {
    float* const mine = span_.parts[static_cast<std::size_t>(board().rank())];
    between_nodes_.emplace(lanes_.participants, std::span(mine + slice.first, mine + slice.last));
  }
  if (!between_nodes_->advance() || board().my(&Board::RankFlags::carried) < previous()) return false;
  spread(span_, slice, board().rank());
  board().mark(&Board::RankFlags::carried, sequence());
  return true;
}

}  // namespace unisono::comm::mpi
