#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>

#include "roster.hpp"
#include "shared_window.hpp"

namespace unisono::comm::mpi {

/// Where the ranks are, for the message about one that does not arrive: each knows of itself and, where the node shares
/// memory, of its neighbours.
class Steps {
 public:
  static constexpr std::int64_t kUnknown = -1;

  explicit Steps(const Roster& roster) : roster_(roster) { of_rank_[roster.rank()] = &mine_; }
  /// Collective over the job.
  void share();
  void free();  ///< collective over the node
  bool shared() const { return window_ != nullptr; }

  void set(std::int64_t step) { of_rank_[roster_.rank()]->store(step, std::memory_order_relaxed); }
  std::int64_t of(int rank) const;
  /// Step by rank, for those that this rank sees.
  std::map<int, std::int64_t> known() const;

 private:
  const Roster& roster_;
  std::atomic<std::int64_t> mine_ = kUnknown;
  bool tried_ = false;
  std::unique_ptr<SharedWindow> window_;
  std::map<int, std::atomic<std::int64_t>*> of_rank_;
};

}  // namespace unisono::comm::mpi
