#pragma once

#include <mpi.h>

#include <cstddef>
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

}  // namespace unisono::comm::mpi
