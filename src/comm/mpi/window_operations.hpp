#pragma once

#include <mpi.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "message_operations.hpp"
#include "ordered_sum.hpp"
#include "shared_window.hpp"
#include "topology.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/comm/mpi.hpp"
#include "unisono/comm/sum_tree.hpp"

namespace unisono::comm::mpi {

/// A span inside a shared window: where this process sees it in the part of each rank of the node.
struct WindowSpan {
  std::vector<float*> parts;
  Index size = 0;           ///< floats
  std::uint64_t place = 0;  ///< of the span in its allocation; equal on all ranks that pass the same span
};

/// What every collective in shared memory does: wait until all have arrived, do this rank's share of the work on the
/// memory of all ranks, wait until all have done theirs. Two rounds of counters, no message, no copy. Where several are
/// in flight, a rank does its shares in the order in which they were started.
class NodeOperation : public Operation {
 public:
  /// \param previous the collective in shared memory before this one; 0: none
  NodeOperation(Board& board, std::uint64_t sequence, std::uint64_t previous)
      : board_(board), sequence_(sequence), previous_(previous) {}

  bool advance() override;
  bool all_arrived() override { return board_.reached(&Board::RankFlags::arrived, sequence_, board_.size(), arrived_); }

 protected:
  virtual void work() = 0;
  Board& board() { return board_; }
  std::uint64_t sequence() const { return sequence_; }
  std::uint64_t previous() const { return previous_; }

 private:
  Board& board_;
  const std::uint64_t sequence_, previous_;
  int arrived_ = 0, worked_ = 0;  ///< ranks that are known to have
  bool did_work_ = false;
};

/// One on a span.
class SpanOperation : public NodeOperation {
 public:
  SpanOperation(Board& board, WindowSpan span, std::uint64_t sequence, std::uint64_t previous)
      : NodeOperation(board, sequence, previous), span_(std::move(span)) {}

 protected:
  const WindowSpan& span() const { return span_; }

 private:
  WindowSpan span_;
};

/// values[i] ← Σ_r values_r[i] on one node: each rank adds its slice in rank order, straight out of all parts, and
/// writes it to all. Cost per rank: it reads and writes n floats, whatever the number of ranks.
class NodeSum final : public SpanOperation {
 public:
  using SpanOperation::SpanOperation;

 private:
  void work() override;
};

/// The root of a TreeSum on one node: each rank computes its slice straight out of all vectors, and writes it to the
/// first vector of all. Cost per rank of P with k vectors together: it reads k n / P floats and writes n.
class NodeTreeSum final : public NodeOperation {
 public:
  /// \param spans of the vectors, by number
  NodeTreeSum(Board& board, std::vector<WindowSpan> spans, const TreeSum& order, std::uint64_t sequence,
              std::uint64_t previous)
      : NodeOperation(board, sequence, previous), spans_(std::move(spans)), order_(order) {}

 private:
  void work() override;
  std::vector<WindowSpan> spans_;
  const TreeSum& order_;
};

/// slice_r of rank r ← Σ of all ranks' slice_r.
class NodeScatter final : public SpanOperation {
 public:
  using SpanOperation::SpanOperation;

 private:
  void work() override;
};

/// Likewise, in blocks that stay in a core's cache while `summed` uses them.
class NodeScatterInBlocks final : public SpanOperation {
 public:
  NodeScatterInBlocks(Board& board, WindowSpan span, const Communicator::Summed& summed, std::uint64_t sequence,
                      std::uint64_t previous)
      : SpanOperation(board, std::move(span), sequence, previous), summed_(summed) {}

 private:
  void work() override;
  const Communicator::Summed& summed_;
};

/// slice_r of all ← slice_r of rank r.
class NodeGather final : public SpanOperation {
 public:
  using SpanOperation::SpanOperation;

 private:
  void work() override;
};

/// How a vector is exchanged between nodes: rank l < count of each node exchanges slice l with rank l of the others.
struct Lanes {
  /// \param all the ranks of the collective
  Lanes(const Topology& topology, Participants all);
  int count;
  Participants participants;  ///< the ranks that exchange this rank's slice; empty where it has none
};

/// A collective over several nodes: first what each node can do itself, in shared memory; then some of its ranks carry
/// the rest between nodes by messages.
class NodesOperation : public SpanOperation {
 public:
  using SpanOperation::SpanOperation;
  bool advance() override;

 protected:
  /// Goes on between nodes. \return whether this rank has done what it has to do there, and may say so: ranks do so in
  /// order
  virtual bool carry() = 0;
  /// How many ranks of the node carry: the first ones.
  virtual int carriers() { return board().size(); }
  bool others_have_carried() { return board().my(&Board::RankFlags::carried) >= previous(); }

 private:
  bool node_is_done_ = false, carried_mine_ = false;
  int carried_ = 0;
};

/// A sum over several nodes: first what each node can add up itself; then the ranks of each lane exchange their slice,
/// and write the sum to all ranks of their node.
class NodesSlices : public NodesOperation {
 public:
  NodesSlices(Board& board, WindowSpan span, Lanes lanes, std::uint64_t sequence, std::uint64_t previous)
      : NodesOperation(board, std::move(span), sequence, previous), lanes_(std::move(lanes)) {}
  bool let_go() override { return !between_nodes_ || between_nodes_->let_go(); }

 protected:
  /// What exchanges this rank's slice between nodes. The sum ends in the slice of `result()`.
  virtual std::unique_ptr<Operation> between_nodes(const Slice& slice, const Participants& participants) = 0;
  virtual float* result() = 0;
  int carriers() override { return lanes_.count; }

 private:
  bool carry() override;

  Lanes lanes_;
  std::unique_ptr<Operation> between_nodes_;
};

/// values[i] ← Σ_r values_r[i] over several nodes. Between M nodes each rank of a lane sends 2 (n / lanes) (M − 1) / M
/// floats. Same bits everywhere: ranks of a node are added in order, then nodes in order.
class NodesSum final : public NodesSlices {
 public:
  using NodesSlices::NodesSlices;

 private:
  void work() override;
  std::unique_ptr<Operation> between_nodes(const Slice& slice, const Participants& participants) override;
  float* result() override { return span().parts[static_cast<std::size_t>(board().rank())]; }
};

/// Half an allreduce over several nodes, of a vector of which each rank of the group has its line_slice_of. Between
/// nodes, a rank sends and receives for the ranks of other nodes that have its place on theirs; on a smaller node it
/// does so for several places.
class NodesHalf : public NodesOperation {
 public:
  NodesHalf(Board& board, WindowSpan span, const Topology& topology, Participants all, std::uint64_t sequence,
            std::uint64_t previous)
      : NodesOperation(board, std::move(span), sequence, previous),
        topology_(topology),
        participants_(std::move(all)) {}
  bool let_go() override { return transfers_.let_go(); }

 protected:
  virtual void exchange() = 0;  ///< starts the messages between nodes; the ranks of this one have done their `work`
  virtual void finish() = 0;    ///< all of them have arrived

  /// The ranks of all nodes for which this rank carries, itself included; and the rank of each node that carries for
  /// it.
  std::vector<int> carried_ranks() const;
  std::vector<int> carrying_ranks() const;
  bool is_here(int rank) const {
    return std::ranges::find(topology_.neighbours(), rank) != topology_.neighbours().end();
  }
  int me() const { return participants_.me; }
  Slice slice(int rank) const { return line_slice_of(span().size, rank, participants_.size()); }
  std::span<float> mine(int rank) const;  ///< that slice, in this rank's memory
  float* own() const { return span().parts[static_cast<std::size_t>(topology_.node_rank)]; }
  /// Messages to and from ranks of other nodes; nothing for those of this one.
  void send(std::span<const float> values, int rank);
  void receive(std::span<float> values, int rank);

  std::unique_ptr<float[]> scratch_;  // before the transfers, which write into it

 private:
  bool carry() override;

  const Topology& topology_;
  Participants participants_;
  Transfers transfers_;
  bool begun_ = false;
};

/// slice_r of rank r ← Σ of all ranks' slice_r, with the bits of NodesSum: each node adds up the slices of all ranks,
/// each of its ranks some of them, and sends the sums to these ranks: n floats, less those of its own ranks' slices.
class NodesScatter final : public NodesHalf {
 public:
  using NodesHalf::NodesHalf;

 private:
  void work() override;
  void exchange() override;
  void finish() override;

  std::vector<const float*> inputs_;  ///< the nodes' sums of this rank's slice, in the order of the nodes
};

/// slice_r of all ← slice_r of rank r, which sends it to one rank of each other node.
class NodesGather final : public NodesHalf {
 public:
  using NodesHalf::NodesHalf;

 private:
  void work() override;
  void exchange() override;
  void finish() override;
};

/// The root of a TreeSum over several nodes: each node adds up the largest subtrees whose vectors are all its own. Each
/// rank of a lane, on a node with k of these sums, sends (k + 1) (n / lanes) (M − 1) / M floats to the M − 1 others.
class NodesTreeSum final : public NodesSlices {
 public:
  /// \param spans of the vectors, by number \param topology of the ranks that `order` speaks of
  NodesTreeSum(Board& board, std::vector<WindowSpan> spans, const TreeSum& order, const Topology& topology, Lanes lanes,
               std::uint64_t sequence, std::uint64_t previous);

 private:
  void work() override;
  std::unique_ptr<Operation> between_nodes(const Slice& slice, const Participants& participants) override;
  float* result() override;
  float* vector_of(const TreeSum::Input& input) const;

  std::vector<WindowSpan> spans_;
  std::vector<int> place_on_node_;  ///< [ranks]
  GroupedTreeSum grouped_;
  std::vector<GroupedTreeSum::Part> mine_;  ///< the parts of this node
};

/// values[i] ← values_0[i] ∘ values_1[i] ∘ … of a few values on one node: every rank reads the inboxes of all.
template <typename T, typename Combine>
class InboxCombine final : public Operation {
 public:
  static bool fits(std::size_t values) { return values * sizeof(T) <= Board::kInboxBytes; }

  /// Fills the inbox: construct it before this rank arrives.
  InboxCombine(Board& board, std::span<T> values, std::uint64_t sequence)
      : board_(board), values_(values), sequence_(sequence), slot_(board.next_slot()) {
    std::copy(values.begin(), values.end(), reinterpret_cast<T*>(board.my_inbox(slot_)));
  }

  bool all_arrived() override { return board_.reached(&Board::RankFlags::arrived, sequence_, board_.size(), arrived_); }
  bool advance() override {
    if (!all_arrived()) return false;
    board_.check_signatures(sequence_);
    std::vector<const T*> inputs;
    for (int r = 0; r < board_.size(); ++r) inputs.push_back(reinterpret_cast<const T*>(board_.inbox(r, slot_)));
    T* const target = values_.data();
    combine_in_order<T>(inputs, std::span(&target, 1), static_cast<Index>(values_.size()), Combine{});
    return true;
  }

 private:
  Board& board_;
  std::span<T> values_;
  std::uint64_t sequence_;
  int slot_;
  int arrived_ = 0;
};

/// Allocates memory in shared windows, and finds the parts of all ranks for a span of it. `allocate` is collective over
/// the group, `deallocate` is not: what all ranks have deallocated is freed at the next allocation, or with the
/// communicator.
class SharedAllocator final : public Allocator {
 public:
  /// \param group over which the ranks agree on sizes and room; must outlive this
  /// \param node  the ranks of the group on this node; MPI_COMM_NULL: no windows, plain memory
  SharedAllocator(Communicator& group, MPI_Comm node, Progress& progress, Warn warn);

  /// Zeroed memory, whose pages are first touched by the rank that owns it. Plain memory on all ranks where some node
  /// has no room for a window.
  void* allocate(std::size_t bytes) override;
  void deallocate(void* pointer) noexcept override;

  /// One copy for the node, zeroed by its ranks in equal parts; null where there is no room for a window. For a group
  /// of one node.
  std::byte* allocate_one_copy(std::size_t bytes);

  /// Where the span lies in the memory of each rank of the node; nothing for memory that is not of a window.
  std::optional<WindowSpan> find(std::span<float> span) const;

  /// Frees all windows. Collective over the node, whose ranks must all be about to call it.
  void free_windows();

 private:
  struct Entry {
    std::unique_ptr<SharedWindow> window;
    std::byte* base;  ///< what `allocate` returned
    std::size_t bytes;
    bool one_copy = false;  ///< for all ranks of the node, so that collectives do not know it
    bool in_use = true;     ///< by this rank
  };

  void agree_on_size(std::size_t bytes);
  void free_what_none_uses();
  bool all_have_room(std::size_t window_bytes);
  std::byte* make_window(std::size_t part_bytes, std::size_t bytes);

  Communicator& group_;
  MPI_Comm node_;
  Progress& progress_;
  Warn warn_;
  std::vector<Entry> entries_;  ///< in the same order on all ranks
};

}  // namespace unisono::comm::mpi
