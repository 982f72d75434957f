#pragma once

#include <cstdint>
#include <memory>

#include "unisono/base/clock.hpp"
#include "unisono/base/log.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/data/dataset.hpp"

namespace unisono::experiment {

class NodePlace;
class SharedDataset;

struct JobOptions {
  /// Whether SIGTERM, SIGINT and SIGUSR1 mean the wish to stop all runs of the job, as long as it lives.
  bool heeds_signals = false;
  /// Of all seconds that runs measure. It outlives the job.
  const Clock& clock = steady_clock();
};

/// What belongs to a group of processes and outlives the runs that they make: the log, the stop signals, the ranks'
/// places on cores and GPUs, opened sets, the clock. Each rank has one. Runs may follow each other, and runs of
/// disjoint groups may go on side by side.
class Job {
 public:
  /// Collective over these ranks. \param ranks they and the log outlive the job
  Job(comm::Communicator& ranks, Log& log, const JobOptions& options = {});
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  comm::Communicator& ranks() { return ranks_; }
  Log& log() { return log_; }
  const Clock& clock() const { return clock_; }
  /// This rank's place among all ranks of the job, which it keeps in every group of them.
  const NodePlace& place() const { return *place_; }
  /// The first stop signal that this process has received; 0: none, or the job does not heed them.
  int received_signal() const;

  /// The ranks of equal colour, ordered by key, for runs side by side. Collective over the job. They stay a group until
  /// the job ends.
  comm::Communicator& split(int color, int key);

  /// The set that a run of this group trains on. All ranks of the job, and groups of `split`, keep the set of their
  /// last run open, and the next run takes it over if it has the same data settings (and the same seed, where sets
  /// depend on it: all but tables) and the file has not changed. A run of any other group opens its own. Collective
  /// over the group. \throws DataError
  std::shared_ptr<SharedDataset> open_set(comm::Communicator& group, const data::DataSettings& settings,
                                          std::uint64_t seed);

 private:
  struct Groups;
  class Signals;

  comm::Communicator& ranks_;
  Log& log_;
  const Clock& clock_;
  std::unique_ptr<Signals> signals_;  ///< null: they are not heeded
  std::unique_ptr<NodePlace> place_;
  std::unique_ptr<Groups> groups_;
};

/// From now on SIGTERM, SIGINT and SIGUSR1 are remembered for the next job that heeds them: one that comes while MPI
/// starts, or while the set is read, ends the run after its first step. A second SIGTERM or SIGINT ends the process at
/// once.
void hold_stop_signals();

}  // namespace unisono::experiment
