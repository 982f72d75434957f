#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_folder.hpp"
#include "checkpoint/local_checkpoints.hpp"
#include "unisono/base/threads.hpp"

namespace unisono::session {

/// Copies checkpoints from a local disk to the run's folder, in the order in which they were written, in a thread that
/// makes no MPI calls. A copy gets its name when it is whole; then it is best.h5, too, if it is to be, and the local
/// file is removed. So the folder is always as a run without a local disk would have left it a while ago.
///
/// A waiting checkpoint is given up when it would not be kept anyway: when `keep` newer ones have been written, and it
/// is not the best one.
class CheckpointDrain {
 public:
  /// \param warn called by the thread where a checkpoint cannot be copied; may be empty
  CheckpointDrain(CheckpointFolder folder, std::function<void(const std::string& text)> warn);
  /// Ends the copy in progress. What is not copied stays on the local disk.
  ~CheckpointDrain();
  CheckpointDrain(const CheckpointDrain&) = delete;
  CheckpointDrain& operator=(const CheckpointDrain&) = delete;

  /// Copies a checkpoint that has been written, and tries again what could not be copied before.
  void add(const LocalCheckpoint& written);
  /// Copies what another process has left, in this order. Since some of it may be damaged, none is given up.
  void take_over(const std::vector<LocalCheckpoint>& left);
  /// Tries again what could not be copied.
  void retry();
  /// Whether a checkpoint is being copied, or waits for it and will be.
  bool is_busy() const;
  /// Waits until it is no longer busy, or some time has passed.
  void wait_for(std::chrono::milliseconds time) const;
  /// Why checkpoints that were added are not in the run's folder, when it is not busy, and what to do; empty: they are
  /// there.
  std::string failure() const;
  /// What is wrong with the last one on the local disk, which is lost; empty: nothing. Is said once.
  std::string take_loss();
  /// Bytes of the checkpoints that are not yet copied.
  std::uint64_t waiting_bytes() const;

  std::int64_t copied() const;    ///< how many have reached the run's folder
  std::int64_t given_up() const;  ///< how many did not have to

 private:
  void start_locked();
  void give_up_old_locked();
  bool is_needed_locked(std::size_t index) const;
  void copy_all();
  void copy(const LocalCheckpoint& one);
  void note_failure_locked(const std::string& what);
  void note_loss_locked(const LocalCheckpoint& one, const std::string& what);

  CheckpointFolder folder_;
  std::function<void(const std::string&)> warn_;
  mutable std::mutex mutex_;
  mutable std::condition_variable idle_;
  std::deque<LocalCheckpoint> waiting_;  ///< the first one is copied while `running_`
  bool running_ = false;
  bool warned_ = false;  ///< of the present failure
  std::string failure_;  ///< why the first one could not be copied
  std::string loss_;     ///< what is wrong with the last one, if it was damaged
  std::int64_t copied_ = 0, given_up_ = 0;
  std::atomic<bool> stopped_ = false;
  Threads thread_{"copying checkpoints to the run folder"};
};

}  // namespace unisono::session
