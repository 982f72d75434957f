#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>

#include "control.hpp"
#include "group.hpp"
#include "progress.hpp"
#include "unisono/base/clock.hpp"

namespace unisono::comm {

/// What a thread does with its core while it waits.
enum class Waiting {
  spins,   ///< keeps it at first: most waits take only microseconds
  sleeps,  ///< sleeps between two polls: other threads of this process need it
};

/// The state that all communicators of this process share.
class MpiJob {
 public:
  /// Collective over MPI_COMM_WORLD.
  MpiJob();
  ~MpiJob();
  MpiJob(const MpiJob&) = delete;
  MpiJob& operator=(const MpiJob&) = delete;

  const mpi::Roster& roster() const { return roster_; }
  mpi::Progress& progress() { return progress_; }
  mpi::Control& control() { return control_; }
  mpi::Steps& steps() { return steps_; }
  /// Whether a wait failed here, or another rank is known to have failed; no collective can be relied on then.
  bool failed();

  /// A barrier over all ranks of the job. \return how many there have been
  std::uint64_t gather_all(double timeout_seconds);

  /// Advances all operations of this process until done() returns true. `done` is called with the lock of progress()
  /// held.
  /// \throws PeerFailure where another rank failed
  /// \throws CommunicationError naming who is missing when the group's timeout has passed
  void wait(const std::function<bool()>& done, const mpi::Place& place, Waiting waiting = Waiting::spins);

  /// Carries an operation out; where that fails, calls `let_go`.
  void run(mpi::Operation& operation, const mpi::Place& place);

  /// Abandons an operation: its buffers may be freed afterwards. Waits for peers that are still reading them, but at
  /// most a second for all operations together, since a peer that has failed, too, will never read them.
  void let_go(mpi::Operation& operation) noexcept;

  /// Waits until all ranks have announced their end, or until five seconds after the first failure became known.
  /// \return whether all have
  bool meet();

 private:
  class WaitMonitor;
  void wait_watched(const std::function<bool()>& done, const mpi::Place& place, Waiting waiting);

  mpi::Roster roster_;
  mpi::Group everyone_;
  MPI_Comm communicator_ = MPI_COMM_NULL;  ///< of everyone
  mpi::Steps steps_;
  mpi::Control control_;
  mpi::Progress progress_;  // last: its thread ends first
  std::atomic<bool> gave_up_ = false;
  std::mutex letting_go_;  ///< several threads may fail at once
  std::optional<Stopwatch> since_letting_go_;
};

}  // namespace unisono::comm
