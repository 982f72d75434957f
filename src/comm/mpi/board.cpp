#include "board.hpp"

#include <new>

#include "check.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::comm::mpi {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "a lock inside the window would belong to one process");

Board::Board(MPI_Comm node) : window_(node, sizeof(RankFlags)) {
  new (window_.mine()) RankFlags();
  check(MPI_Barrier(node), "MPI_Barrier");
}

void Board::arrive(std::uint64_t sequence, std::uint64_t signature) {
  mine().signatures[sequence % kRing].store(signature, std::memory_order_relaxed);
  mark(&RankFlags::arrived, sequence);
}

bool Board::reached(Which counter, std::uint64_t sequence, int ranks, int& seen) const {
  while (seen < ranks && (part(seen).*counter).value.load(std::memory_order_acquire) >= sequence) ++seen;
  return seen >= ranks;
}

void Board::check_signatures(std::uint64_t sequence) const {
  const auto signature = [&](int rank) {
    return part(rank).signatures[sequence % kRing].load(std::memory_order_relaxed);
  };
  for (int rank = 0; rank < size(); ++rank) {
    if (signature(rank) != signature(window_.rank())) {
      throw CommunicationError(
          "the ranks of this node call different collectives, or call one with different lengths or offsets; all ranks "
          "must make the same calls in the same order");
    }
  }
}

}  // namespace unisono::comm::mpi
