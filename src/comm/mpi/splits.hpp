#pragma once

#include <mpi.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "board.hpp"
#include "progress.hpp"
#include "shared_allocator.hpp"

namespace unisono::comm::mpi {

class Splits;

/// The MPI resources of a communicator. Destroying this struct does not free them, since that is collective.
struct Resources {
  MPI_Comm collectives = MPI_COMM_NULL, messages = MPI_COMM_NULL, node = MPI_COMM_NULL;
  std::unique_ptr<Board> board;             ///< may be null
  std::unique_ptr<SharedAllocator> shared;  ///< null where the communicator was never complete
  std::unique_ptr<Resources> node_group;    ///< of the communicator of this node's ranks, where there are several nodes
  std::shared_ptr<Splits> splits;           ///< the groups that were split from it

  /// Collective over the communicator's ranks, which must all be about to call it.
  void free(Progress& progress);
};

/// The groups that were split from a communicator and are not freed yet. Each split makes one group on every rank, so
/// that a number names the same split on all of them. When a rank destroys its group, it gives the group's resources
/// back; they are freed when all ranks have done so.
class Splits {
 public:
  /// Registers a group that is about to be made. \return its number
  std::uint64_t add();
  void give_back(std::uint64_t number, Resources resources) { groups_[number] = std::move(resources); }
  /// For each group, in the order of the splits: 1 where this rank has not given it back, else 0.
  std::vector<std::int64_t> in_use() const;
  /// Frees the groups that no rank uses. Collective. \param in_use the maximum over all ranks of each number above
  void free_unused(const std::vector<std::int64_t>& in_use, Progress& progress);
  /// Frees what this rank has given back; all ranks have given back the same.
  void free_all(Progress& progress);

 private:
  std::uint64_t count_ = 0;
  std::map<std::uint64_t, std::optional<Resources>> groups_;  ///< by number; empty: this rank still uses it
};

}  // namespace unisono::comm::mpi
