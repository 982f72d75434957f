#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>

#include "control.hpp"
#include "group.hpp"
#include "progress.hpp"
#include "roster.hpp"
#include "steps.hpp"
#include "unisono/base/clock.hpp"

namespace unisono::comm {

/// What a thread does with its core while it waits.
enum class Waiting {
  spins,   ///< keeps it at first: what it waits for is mostly there within microseconds
  yields,  ///< gives it away between two looks: other threads of this process need it
};

/// All that the communicators of this process share.
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
  /// Whether something went wrong here, or elsewhere as far as is known: then no collective can be relied on.
  bool failed();

  /// Waits until all ranks have called it. \return how often they have
  std::uint64_t gather_all(double timeout_seconds);

  /// Moves all operations until done() holds, which is called with the lock of progress() held.
  /// \throws PeerFailure where another rank failed
  /// \throws CommunicationError naming who is missing when the group's timeout has passed
  void wait(const std::function<bool()>& done, const mpi::Place& place, Waiting waiting = Waiting::spins);

  /// Carries an operation out; where that fails, gives it up.
  void run(mpi::Operation& operation, const mpi::Place& place);

  /// Gives an operation up: its memory may go away afterwards. Peers that are still reading it get up to a second in
  /// all to finish; whoever has failed too will never read it.
  void let_go(mpi::Operation& operation) noexcept;

  /// Waits until all ranks have announced their end, or until five seconds after the first failure became known.
  /// \return whether all have
  bool meet();

 private:
  class Vigil;
  void wait_in_vigil(const std::function<bool()>& done, const mpi::Place& place, Waiting waiting);

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
