#pragma once

#include <mpi.h>

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "message_operations.hpp"
#include "shared_window.hpp"
#include "unisono/comm/mpi.hpp"
#include "window_operations.hpp"

namespace unisono::comm::mpi {

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
