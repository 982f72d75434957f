#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace unisono::comm::mpi {

/// Memory that the ranks of a node share: MPI_Win_allocate_shared, one part per rank, each aligned to kAlignmentBytes.
class SharedWindow {
 public:
  /// Bytes that a window may still take on this node.
  static std::size_t room_bytes();
  /// Why this process cannot make a window of so many bytes over all ranks ("12.0 MiB are free in /dev/shm"), and what
  /// to do about it; empty where it can. Making such a window fails on one rank and hangs the others: so all ranks must
  /// ask and agree first.
  struct Lack {
    std::string what, remedy;
  };
  static std::optional<Lack> lack(std::size_t bytes);
  /// The folder that windows lie in: Open MPI can be told another one than /dev/shm; MPICH uses POSIX shared memory.
  static const std::string& backing_folder();
  /// The most bytes that a window with such parts takes.
  static std::size_t needed_bytes(std::size_t part_bytes, int ranks);

  /// Collective over `node`, whose ranks must all be about to call it. The memory is zero and not yet touched: a page
  /// is placed on the NUMA node of the rank that first writes to it.
  /// \param part_bytes of this rank
  SharedWindow(MPI_Comm node, std::size_t part_bytes);
  SharedWindow(const SharedWindow&) = delete;
  SharedWindow& operator=(const SharedWindow&) = delete;
  /// Collective, as the constructor. A window that is destroyed without it stays until the process ends, since peers
  /// may not be there to free it.
  void free();

  std::size_t part_bytes() const { return part_bytes_; }
  int rank() const { return rank_; }
  std::byte* part(int node_rank) const { return parts_[static_cast<std::size_t>(node_rank)]; }
  std::byte* mine() const { return part(rank_); }
  const std::vector<std::byte*>& parts() const { return parts_; }

 private:
  MPI_Win window_ = MPI_WIN_NULL;
  std::size_t part_bytes_;
  int rank_ = 0;
  std::vector<std::byte*> parts_;  ///< where this process sees the part of each rank
};

/// Shared memory in which the ranks of a node publish how far each has come with the group's collectives, and small
/// contributions to them. Each rank writes only to its own part.
class Board {
 public:
  static constexpr std::size_t kInboxBytes = 16 << 10;
  /// How many collectives' signatures are kept. That is more than a rank can be ahead of what another one has checked:
  /// at most kMostInFlight that the other has not begun, and as many that it has begun but not worked on.
  static constexpr std::uint64_t kRing = 128;
  static constexpr int kMostInFlight = 32;

  /// A counter of collectives on a cache line of its own: "all up to this number".
  struct alignas(64) Counter {
    std::atomic<std::uint64_t> value = 0;
  };
  struct RankFlags {
    Counter arrived;  ///< its input is ready to be read
    Counter worked;   ///< it has done its share of the work on all ranks' memory
    Counter carried;  ///< it has written its slice of the sum over all nodes to the ranks of its node
    alignas(64) std::atomic<std::uint64_t> signatures[kRing] = {};  ///< of the collectives, by number modulo kRing
    alignas(64) std::byte inboxes[2][kInboxBytes] = {};
  };
  using Which = Counter RankFlags::*;

  static std::size_t part_bytes() { return sizeof(RankFlags); }

  /// Collective over `node`.
  explicit Board(MPI_Comm node);
  void free() { window_.free(); }  ///< collective

  int rank() const { return window_.rank(); }
  int size() const { return static_cast<int>(window_.parts().size()); }

  /// Announces that this rank's input to collective `sequence` is ready. \param signature hash of the collective's kind
  /// and arguments, equal on all ranks that call the same
  void arrive(std::uint64_t sequence, std::uint64_t signature);
  void mark(Which counter, std::uint64_t sequence) {
    (mine().*counter).value.store(sequence, std::memory_order_release);
  }
  std::uint64_t my(Which counter) const { return (mine().*counter).value.load(std::memory_order_relaxed); }
  /// Whether the counters of the node's first `ranks` ranks have reached `sequence`. \param seen how many of them are
  /// known to have; the caller keeps it between calls
  bool reached(Which counter, std::uint64_t sequence, int ranks, int& seen) const;
  /// \throws CommunicationError where another rank that has arrived calls a different collective
  void check_signatures(std::uint64_t sequence) const;

  // Each rank has two inboxes (slots) for its own contributions and uses them in turn. When a rank fills one again, all
  // ranks have arrived at the collective in between, and so have read the old content.
  int next_slot() { return slot_ ^= 1; }
  std::byte* inbox(int rank, int slot) const { return part(rank).inboxes[slot]; }
  std::byte* my_inbox(int slot) const { return mine().inboxes[slot]; }

 private:
  RankFlags& part(int rank) const { return *reinterpret_cast<RankFlags*>(window_.part(rank)); }
  RankFlags& mine() const { return part(window_.rank()); }

  SharedWindow window_;
  int slot_ = 0;
};

}  // namespace unisono::comm::mpi
