#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "shared_window.hpp"

namespace unisono::comm::mpi {

/// What the ranks of a node write for each other to see, in memory that they share: how far each has come with the
/// group's collectives, and small contributions to them. A rank writes its own part alone.
class Board {
 public:
  static constexpr std::size_t kInboxBytes = 16 << 10;
  /// Signatures are kept for so many collectives. No rank may be further ahead of what another has checked: at most
  /// kMostInFlight begun by the one and not yet by the other, and as many that the other has begun but not worked on.
  static constexpr std::uint64_t kRing = 128;
  static constexpr int kMostInFlight = 32;

  /// A counter of collectives on a cache line of its own: "all up to this number".
  struct alignas(64) Counter {
    std::atomic<std::uint64_t> value = 0;
  };
  struct RankFlags {
    Counter arrived;  ///< what it brings to the collective is there to be read
    Counter worked;   ///< it has done its share of the work on everybody's memory
    Counter carried;  ///< it has brought the sum of the other nodes
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

  /// This rank brings what it has to collective `sequence`. \param signature equal on all ranks that call the same
  void arrive(std::uint64_t sequence, std::uint64_t signature);
  void mark(Which counter, std::uint64_t sequence) {
    (mine().*counter).value.store(sequence, std::memory_order_release);
  }
  std::uint64_t my(Which counter) const { return (mine().*counter).value.load(std::memory_order_relaxed); }
  /// Whether the first `ranks` ranks of the node have come so far. \param seen how many have; kept between calls
  bool reached(Which counter, std::uint64_t sequence, int ranks, int& seen) const;
  /// \throws CommunicationError where another rank that has arrived calls something else
  void check_signatures(std::uint64_t sequence) const;

  // Two slots, taken in turn: when a rank fills one again, all have arrived at the collective between, and so have read
  // what it held before.
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
