#include "mpi/window_operations.hpp"

#include <fmt/format.h>

#include <cstring>

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

void NodeSum::work() { add(span(), line_slice_of(span().size, board().rank(), board().size()), span().parts); }

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
  add(span(), line_slice_of(span().size, rank, board().size()), part_of(span(), rank));
}

void NodeScatterInBlocks::work() {
  constexpr Index kBlock = Index{1} << 14;  // 64 KiB of each vector
  const int rank = board().rank();
  const Slice slice = line_slice_of(span().size, rank, board().size());
  for (Index first = slice.first; first < slice.last; first += kBlock) {
    const Index last = std::min(first + kBlock, slice.last);
    add(span(), {first, last}, part_of(span(), rank));
    summed_(first, last);
  }
}

void NodeGather::work() {
  const int rank = board().rank();
  spread(span(), line_slice_of(span().size, rank, board().size()), span().parts[static_cast<std::size_t>(rank)]);
}

Lanes::Lanes(const Topology& topology, Participants all) : count(topology.lanes()), participants(std::move(all)) {
  participants.ranks.clear();
  participants.me = topology.node;
  if (topology.node_rank < count) participants.ranks = topology.lane(topology.node_rank);
}

bool NodesOperation::advance() {
  node_is_done_ = node_is_done_ || NodeOperation::advance();
  if (!node_is_done_) return false;
  if (!carried_mine_) {
    if (!carry()) return false;
    board().mark(&Board::RankFlags::carried, sequence());
    carried_mine_ = true;
  }
  return board().reached(&Board::RankFlags::carried, sequence(), carriers(), carried_);
}

bool NodesSlices::carry() {
  if (board().rank() >= lanes_.count) return others_have_carried();
  const Slice slice = line_slice_of(span().size, board().rank(), lanes_.count);
  if (!between_nodes_) between_nodes_ = between_nodes(slice, lanes_.participants);
  if (!between_nodes_->advance() || !others_have_carried()) return false;
  spread(span(), slice, result());
  return true;
}

void NodesSum::work() {
  // The sum of this node goes to the ranks that exchange it with other nodes. If all ranks do, each needs only its own
  // slice.
  const bool all_carry = carriers() == board().size();
  const std::span<float* const> parts(span().parts);
  add(span(), line_slice_of(span().size, board().rank(), board().size()),
      all_carry ? part_of(span(), board().rank()) : parts.first(static_cast<std::size_t>(carriers())));
}

std::unique_ptr<Operation> NodesSum::between_nodes(const Slice& slice, const Participants& participants) {
  return std::make_unique<MessageCombine<float, Sum>>(participants,
                                                      std::span(result() + slice.first, result() + slice.last));
}

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

std::vector<int> NodesHalf::carrying_ranks() const {
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

bool NodesHalf::carry() {
  if (!std::exchange(begun_, true)) exchange();
  if (!transfers_.test() || !others_have_carried()) return false;
  finish();
  return true;
}

void NodesScatter::work() {
  for (const int rank : carried_ranks()) add(span(), slice(rank), part_of(span(), board().rank()));
}

void NodesScatter::exchange() {
  const std::size_t length = mine(me()).size();
  const std::vector<int> nodes = carrying_ranks();
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
  for (const int rank : carrying_ranks()) send(mine(me()), rank);
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
    : NodesSlices(board, spans.front(), std::move(lanes), sequence, previous),
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

SharedAllocator::SharedAllocator(Communicator& group, MPI_Comm node, Progress& progress, Warn warn)
    : group_(group), node_(node), progress_(progress), warn_(std::move(warn)) {}

void* SharedAllocator::allocate(std::size_t bytes) {
  if (node_ == MPI_COMM_NULL) return page_allocator().allocate(bytes);
  agree_on_size(bytes);
  free_what_none_uses();
  if (!all_have_room(SharedWindow::needed_bytes(bytes, group_.node_size()))) return page_allocator().allocate(bytes);
  const auto part = std::max(bytes, kAlignmentBytes);  // even of nothing each rank has an address of its own
  make_window(part, part);
  Entry& entry = entries_.back();
  entry.base = entry.window->mine();
  std::memset(entry.base, 0, part);
  return entry.base;
}

std::byte* SharedAllocator::allocate_one_copy(std::size_t bytes) {
  if (node_ == MPI_COMM_NULL) return nullptr;
  agree_on_size(bytes);
  free_what_none_uses();
  if (!all_have_room(SharedWindow::needed_bytes(bytes, 1))) return nullptr;
  const auto whole = std::max(bytes, kAlignmentBytes);
  std::byte* const base = make_window(group_.rank() == 0 ? whole : 0, whole);
  entries_.back().one_copy = true;
  const Slice mine = slice_of(static_cast<Index>(whole), group_.rank(), group_.size());
  std::memset(base + mine.first, 0, static_cast<std::size_t>(mine.last - mine.first));
  group_.barrier();  // nobody writes before all have zeroed
  return base;
}

void SharedAllocator::deallocate(void* pointer) noexcept {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.base == pointer; });
  if (found == entries_.end()) {
    page_allocator().deallocate(pointer);
  } else {
    found->in_use = false;
  }
}

std::optional<WindowSpan> SharedAllocator::find(std::span<float> span) const {
  const auto* const first = reinterpret_cast<const std::byte*>(span.data());
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (!entry.in_use || entry.one_copy) continue;
    if (first < entry.base || first + span.size_bytes() > entry.base + entry.bytes) continue;
    const std::ptrdiff_t offset = first - entry.base;
    WindowSpan found{{}, static_cast<Index>(span.size()), (i << 48) + static_cast<std::uint64_t>(offset)};
    for (std::byte* part : entry.window->parts()) found.parts.push_back(reinterpret_cast<float*>(part + offset));
    return found;
  }
  return std::nullopt;
}

void SharedAllocator::free_windows() {
  const std::lock_guard lock(progress_.mutex());
  for (Entry& entry : entries_) entry.window->free();
  entries_.clear();
}

void SharedAllocator::agree_on_size(std::size_t bytes) {
  const auto size = static_cast<std::int64_t>(bytes);
  std::int64_t largest_and_least[] = {size, -size};
  group_.allreduce_max(largest_and_least);
  if (largest_and_least[0] != -largest_and_least[1]) {
    throw CommunicationError(
        fmt::format("the ranks ask for shared memory of different sizes: {} to {} bytes, rank {} for {}",
                    -largest_and_least[1], largest_and_least[0], group_.rank(), size));
  }
}

void SharedAllocator::free_what_none_uses() {
  std::vector<std::int64_t> uses;
  for (const Entry& entry : entries_) uses.push_back(entry.in_use ? 1 : 0);
  group_.allreduce_max(uses);
  const std::lock_guard lock(progress_.mutex());
  for (std::size_t i = 0; i < uses.size(); ++i) {
    if (uses[i] == 0) entries_[i].window->free();
  }
  std::size_t i = 0;
  std::erase_if(entries_, [&](const Entry&) { return uses[i++] == 0; });
}

bool SharedAllocator::all_have_room(std::size_t window_bytes) {
  const auto lack = SharedWindow::lack(window_bytes);
  if (group_.max(lack ? 1 : 0) == 0) return true;
  if (lack && group_.node_rank() == 0 && warn_) {
    constexpr double kMiB = 1 << 20;
    warn_(
        fmt::format("{}: no room for a shared window of {:.1f} MiB ({}): plain memory is used, which is slower; {}, or "
                    "set communication.shared_memory = false",
                    group_.host(), static_cast<double>(window_bytes) / kMiB, lack->what, lack->remedy));
  }
  return false;
}

std::byte* SharedAllocator::make_window(std::size_t part_bytes, std::size_t bytes) {
  const std::lock_guard lock(progress_.mutex());
  auto window = std::make_unique<SharedWindow>(node_, part_bytes);
  std::byte* const base = window->part(0);
  entries_.push_back({.window = std::move(window), .base = base, .bytes = bytes});
  return base;
}

}  // namespace unisono::comm::mpi
