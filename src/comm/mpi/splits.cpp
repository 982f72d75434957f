#include "splits.hpp"

#include <mutex>

#include "check.hpp"

namespace unisono::comm::mpi {

void Resources::free(Progress& progress) {
  if (splits) splits->free_all(progress);
  if (node_group) node_group->free(progress);
  if (shared) shared->free_windows();
  const std::lock_guard lock(progress.mutex());
  if (board) board->free();
  for (MPI_Comm* communicator : {&node, &messages, &collectives}) {
    if (*communicator != MPI_COMM_NULL) check(MPI_Comm_free(communicator), "MPI_Comm_free");
  }
}

std::uint64_t Splits::add() {
  groups_.emplace(++count_, std::nullopt);
  return count_;
}

std::vector<std::int64_t> Splits::in_use() const {
  std::vector<std::int64_t> uses;
  for (const auto& [number, resources] : groups_) uses.push_back(resources ? 0 : 1);
  return uses;
}

void Splits::free_unused(const std::vector<std::int64_t>& in_use, Progress& progress) {
  auto group = groups_.begin();
  for (const std::int64_t used : in_use) {
    if (used != 0) {
      ++group;
      continue;
    }
    group->second->free(progress);
    group = groups_.erase(group);
  }
}

void Splits::free_all(Progress& progress) { free_unused(in_use(), progress); }

}  // namespace unisono::comm::mpi
