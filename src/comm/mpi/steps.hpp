#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>

#include "roster.hpp"
#include "shared_window.hpp"

namespace unisono::comm::mpi {

/// The training steps that ranks are at, for the message about one that does not arrive. Each rank knows its own and,
/// where the node shares memory, those of the other ranks of its node.
class Steps {
 public:
  static constexpr std::int64_t kUnknown = -1;

  explicit Steps(const Roster& roster) : roster_(roster) { of_rank_[roster.rank()] = &mine_; }
  /// Makes the steps visible to all ranks of a node, where it has room for shared memory. Only the first call does
  /// anything. Collective over the job.
  void share();
  void free();  ///< collective over the node
  bool shared() const { return window_ != nullptr; }

  void set(std::int64_t step) { of_rank_[roster_.rank()]->store(step, std::memory_order_relaxed); }
  std::int64_t of(int rank) const;
  /// Steps by rank, for the ranks that this one knows of.
  std::map<int, std::int64_t> known() const;

 private:
  const Roster& roster_;
  std::atomic<std::int64_t> mine_ = kUnknown;
  bool tried_ = false;
  std::unique_ptr<SharedWindow> window_;
  std::map<int, std::atomic<std::int64_t>*> of_rank_;
};

}  // namespace unisono::comm::mpi
