#include "steps.hpp"

#include <new>
#include <utility>

#include "check.hpp"

namespace unisono::comm::mpi {

void Steps::share() {
  if (std::exchange(tried_, true)) return;  // on all ranks alike, whether or not their nodes had room
  MPI_Comm node = MPI_COMM_NULL;
  check(MPI_Comm_split(MPI_COMM_WORLD, roster_[roster_.rank()].node, roster_.rank(), &node), "MPI_Comm_split");
  int ranks = 0;
  check(MPI_Comm_size(node, &ranks), "MPI_Comm_size");
  using Step = std::atomic<std::int64_t>;
  int has_room = SharedWindow::lack(SharedWindow::needed_bytes(sizeof(Step), ranks)) ? 0 : 1;
  check(MPI_Allreduce(MPI_IN_PLACE, &has_room, 1, MPI_INT, MPI_MIN, node), "MPI_Allreduce");
  if (has_room != 0 && ranks > 1) {
    window_ = std::make_unique<SharedWindow>(node, sizeof(Step));
    new (window_->mine()) Step(of(roster_.rank()));
    check(MPI_Barrier(node), "MPI_Barrier");
    int place = 0;
    for (int r = 0; r < roster_.size(); ++r) {
      if (roster_[r].node != roster_[roster_.rank()].node) continue;
      of_rank_[r] = std::launder(reinterpret_cast<Step*>(window_->part(place++)));
    }
  }
  check(MPI_Comm_free(&node), "MPI_Comm_free");
}

void Steps::free() {
  if (shared()) window_->free();
}

std::int64_t Steps::of(int rank) const {
  const auto found = of_rank_.find(rank);
  return found == of_rank_.end() ? kUnknown : found->second->load(std::memory_order_relaxed);
}

std::map<int, std::int64_t> Steps::known() const {
  std::map<int, std::int64_t> steps;
  for (const auto& [rank, step] : of_rank_) steps[rank] = step->load(std::memory_order_relaxed);
  return steps;
}

}  // namespace unisono::comm::mpi
