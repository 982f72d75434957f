#include "window_operations.hpp"

#include <algorithm>

namespace unisono::comm::mpi {
namespace {

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

/// Copies a slice to all parts.
void spread(const WindowSpan& span, const Slice& slice, const float* source) {
  for (float* part : span.parts) {
    if (part != source) std::copy(source + slice.first, source + slice.last, part + slice.first);
  }
}

/// Computes a slice of a sum from vectors, and writes it to others.
void combine_slice(std::vector<const float*> inputs, std::span<const int> program, std::vector<float*> targets,
                   const Slice& slice) {
  for (const float*& input : inputs) input += slice.first;
  for (float*& target : targets) target += slice.first;
  combine_in_tree(inputs, program, targets, slice.last - slice.first);
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

void NodeSum::work() { add(span_, line_slice_of(span_.size, board().rank(), board().size()), span_.parts); }

void NodeTreeSum::work() {
  const WindowSpan& sum = spans_.front();
  std::vector<const float*> inputs;
  for (const TreeSum::Input& input : order_.inputs) {
    inputs.push_back(spans_[static_cast<std::size_t>(input.vector)].parts[static_cast<std::size_t>(input.rank)]);
  }
  combine_slice(std::move(inputs), order_.program, sum.parts, line_slice_of(sum.size, board().rank(), board().size()));
}

void NodeScatter::work() {
  const int rank = board().rank();
  add(span_, line_slice_of(span_.size, rank, board().size()), part_of(span_, rank));
}

void NodeScatterInBlocks::work() {
  constexpr Index kBlock = Index{1} << 14;  // 64 KiB of each vector
  const int rank = board().rank();
  const Slice slice = line_slice_of(span_.size, rank, board().size());
  for (Index first = slice.first; first < slice.last; first += kBlock) {
    const Index last = std::min(first + kBlock, slice.last);
    add(span_, {first, last}, part_of(span_, rank));
    summed_(first, last);
  }
}

void NodeGather::work() {
  const int rank = board().rank();
  spread(span_, line_slice_of(span_.size, rank, board().size()), span_.parts[static_cast<std::size_t>(rank)]);
}

Lanes::Lanes(const Topology& topology, Participants all) : count(topology.lanes()), participants(std::move(all)) {
  participants.ranks.clear();
  participants.me = topology.node;
  if (topology.node_rank < count) participants.ranks = topology.lane(topology.node_rank);
}

bool NodesOperation::advance() {
  if (!node_is_done_) {
    if (!NodeOperation::advance()) return false;
    node_is_done_ = true;
  }
  if (!carried_mine_) {
    if (!carry()) return false;
    board().mark(&Board::RankFlags::carried, sequence());
    carried_mine_ = true;
  }
  return board().reached(&Board::RankFlags::carried, sequence(), lanes_.count, carried_);
}

/// \return whether this rank has done what it has to do between nodes, and may say so: ranks do so in order.
bool NodesOperation::carry() {
  if (!carries()) return board().my(&Board::RankFlags::carried) >= previous();
  const Slice slice = line_slice_of(span_.size, board().rank(), lanes_.count);
  if (!between_nodes_) between_nodes_ = between_nodes(slice, lanes_.participants);
  if (!between_nodes_->advance() || board().my(&Board::RankFlags::carried) < previous()) return false;
  spread(span_, slice, result());
  return true;
}

void NodesSum::work() {
  // The sum of this node goes to the ranks that exchange it with other nodes. If all ranks do, each needs only its own
  // slice.
  const bool all_carry = lanes() == board().size();
  const std::span<float* const> parts(span().parts);
  add(span(), line_slice_of(span().size, board().rank(), board().size()),
      all_carry ? part_of(span(), board().rank()) : parts.first(static_cast<std::size_t>(lanes())));
}

std::unique_ptr<Operation> NodesSum::between_nodes(const Slice& slice, const Participants& participants) {
  return std::make_unique<MessageCombine<float, Sum>>(participants,
                                                      std::span(result() + slice.first, result() + slice.last));
}

NodesHalf::NodesHalf(Board& board, WindowSpan span, const Topology& topology, Participants all, std::uint64_t sequence,
                     std::uint64_t previous)
    : NodeOperation(board, sequence, previous),
      span_(std::move(span)),
      topology_(topology),
      participants_(std::move(all)) {}

std::vector<int> NodesHalf::carried_ranks() const {
  std::vector<int> ranks;
  for (const std::vector<int>& node : topology_.nodes) {
    for (auto place = static_cast<std::size_t>(topology_.node_rank); place < node.size();
         place += topology_.neighbours().size()) {
      ranks.push_back(node[place]);
    }
  }
  return ranks;
}

std::vector<int> NodesHalf::carriers() const {
  std::vector<int> ranks;
  for (const std::vector<int>& node : topology_.nodes) {
    ranks.push_back(node[static_cast<std::size_t>(topology_.node_rank) % node.size()]);
  }
  return ranks;
}

std::span<float> NodesHalf::mine(int rank) const {
  const Slice bounds = slice(rank);
  return {own() + bounds.first, own() + bounds.last};
}

void NodesHalf::send(std::span<const float> values, int rank) {
  if (!is_here(rank)) transfers_.send(std::as_bytes(values), participants_.communicator, rank, participants_.tag);
}

void NodesHalf::receive(std::span<float> values, int rank) {
  if (is_here(rank)) return;
  transfers_.receive(std::as_writable_bytes(values), participants_.communicator, rank, participants_.tag);
}

bool NodesHalf::advance() {
  if (!node_is_done_) {
    if (!NodeOperation::advance()) return false;
    node_is_done_ = true;
    exchange();
  }
  if (!carried_mine_) {
    if (!transfers_.test() || board().my(&Board::RankFlags::carried) < previous()) return false;
    finish();
    board().mark(&Board::RankFlags::carried, sequence());
    carried_mine_ = true;
  }
  return board().reached(&Board::RankFlags::carried, sequence(), board().size(), carried_);
}

void NodesScatter::work() {
  for (const int rank : carried_ranks()) add(span(), slice(rank), part_of(span(), board().rank()));
}

void NodesScatter::exchange() {
  const std::size_t length = mine(me()).size();
  const std::vector<int> nodes = carriers();
  scratch_ = std::make_unique_for_overwrite<float[]>(nodes.size() * length);
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    const std::span<float> brought(scratch_.get() + node * length, length);
    receive(brought, nodes[node]);
    inputs_.push_back(is_here(nodes[node]) ? mine(me()).data() : brought.data());
  }
  for (const int rank : carried_ranks()) send(mine(rank), rank);
}

void NodesScatter::finish() {
  float* const target = mine(me()).data();
  combine_in_order<float>(inputs_, std::span(&target, 1), std::ssize(mine(me())), Sum{});
}

void NodesGather::work() { spread(span(), slice(me()), own()); }

void NodesGather::exchange() {
  for (const int rank : carried_ranks()) receive(mine(rank), rank);
  for (const int rank : carriers()) send(mine(me()), rank);
}

void NodesGather::finish() {
  for (const int rank : carried_ranks()) {
    if (!is_here(rank)) spread(span(), slice(rank), own());
  }
}

namespace {

/// The node of each rank, or the rank's place on it.
std::vector<int> by_rank(const Topology& topology, bool place) {
  std::vector<int> values;
  for (std::size_t node = 0; node < topology.nodes.size(); ++node) {
    for (std::size_t i = 0; i < topology.nodes[node].size(); ++i) {
      const auto rank = static_cast<std::size_t>(topology.nodes[node][i]);
      values.resize(std::max(values.size(), rank + 1));
      values[rank] = static_cast<int>(place ? i : node);
    }
  }
  return values;
}

}  // namespace

NodesTreeSum::NodesTreeSum(Board& board, std::vector<WindowSpan> spans, const TreeSum& order, const Topology& topology,
                           Lanes lanes, std::uint64_t sequence, std::uint64_t previous)
    : NodesOperation(board, spans.front(), std::move(lanes), sequence, previous),
      spans_(std::move(spans)),
      place_on_node_(by_rank(topology, /*place=*/true)),
      grouped_(order, by_rank(topology, /*place=*/false)) {
  for (const GroupedTreeSum::Part& part : grouped_.parts) {
    if (part.group == topology.node) mine_.push_back(part);
  }
}

float* NodesTreeSum::vector_of(const TreeSum::Input& input) const {
  const int place = place_on_node_[static_cast<std::size_t>(input.rank)];
  return spans_[static_cast<std::size_t>(input.vector)].parts[static_cast<std::size_t>(place)];
}

/// Each part's sum takes the place of the part's first vector.
void NodesTreeSum::work() {
  const Slice slice = line_slice_of(span().size, board().rank(), board().size());
  for (const GroupedTreeSum::Part& part : mine_) {
    std::vector<const float*> inputs;
    for (const TreeSum::Input& input : part.inputs) inputs.push_back(vector_of(input));
    combine_slice(std::move(inputs), part.program, {vector_of(part.inputs.front())}, slice);
  }
}

float* NodesTreeSum::result() {
  return mine_.empty() ? span().parts[static_cast<std::size_t>(board().rank())]
                       : vector_of(mine_.front().inputs.front());
}

std::unique_ptr<Operation> NodesTreeSum::between_nodes(const Slice& slice, const Participants& participants) {
  std::vector<std::span<float>> vectors;
  for (const GroupedTreeSum::Part& part : mine_) {
    float* const sum = vector_of(part.inputs.front());
    vectors.emplace_back(sum + slice.first, sum + slice.last);
  }
  // All nodes name as many vectors; what is in those without a part is not read.
  while (std::ssize(vectors) < grouped_.rest.vectors) {
    vectors.emplace_back(result() + slice.first, result() + slice.last);
  }
  return std::make_unique<MessageTreeSum>(participants, std::move(vectors), grouped_.rest);
}

}  // namespace unisono::comm::mpi
