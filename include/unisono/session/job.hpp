#pragma once

#include <cstdint>
#include <memory>

#include "unisono/base/log.hpp"
#include "unisono/base/runtime.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/data/dataset.hpp"

namespace unisono::session {

class NodePlace;
class SharedDataset;
class SharedStaging;

/// How a job treats signals and measures time.
struct JobOptions {
  /// Whether SIGTERM, SIGINT and SIGUSR1 ask all runs of the job to stop, as long as the job exists.
  bool heeds_signals = false;
  /// Passes the time of the job's runs, and measures it. Must outlive the job.
  const Runtime& runtime = machine_runtime();
};

/// What a group of processes shares among the runs that it makes, one after another or in disjoint groups at the same
/// time: the log, stop signals, the ranks' assignment to cores and GPUs, opened sets, the runtime. Each rank has one
/// Job.
class Job {
 public:
  /// Collective over `ranks`. \param ranks all ranks of the job; they and the log must outlive it
  Job(comm::Communicator& ranks, Log& log, const JobOptions& options = {});
  /// A part of a job, for runs that go on at the same time as others, also on other threads of these processes: with a
  /// log of its own, but the whole job's signals, cores and runtime. Its runs train on views of the set that the whole
  /// job has opened last, where they train on the same set. Not collective. \param ranks some ranks of the whole job,
  /// or a group of this rank alone; they, the log and the whole job must outlive it
  /// \param runtime another one than the whole job's; null: the same
  Job(Job& whole, comm::Communicator& ranks, Log& log, const Runtime* runtime = nullptr);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  comm::Communicator& ranks() const { return ranks_; }
  Log& log() { return log_; }
  const Runtime& runtime() const { return runtime_; }
  /// This rank's cores and its number on its node, among all ranks of the job; both are the same in every group.
  const NodePlace& place() const { return *place_; }
  /// The first stop signal that this process has received; 0 if there was none, or the job does not heed signals.
  int received_signal() const;

  /// A group of the ranks with the same colour, ordered by key as in MPI_Comm_split, for runs at the same time.
  /// Collective over the job, which owns the group.
  comm::Communicator& split(int color, int key);

  /// Begins to stage a set where `data.stage` says so, before it is opened. It is staged until the job ends, or the
  /// group stages another set. Collective over the group. \return null: it is not staged \throws ConfigError
  std::shared_ptr<const SharedStaging> stage_set(comm::Communicator& group, const data::DataSettings& settings);

  /// Opens the set on which a run of this group trains. The group of all ranks, and each group made by `split`, keep
  /// the set of their last run open; the next run reuses it if the data settings and the file are the same, and the
  /// seed, too, unless the set is a table. Other groups always open the set anew. Collective over the group. \throws
  /// DataError
  /// \param fold the training and validation examples; null: as the settings say
  std::shared_ptr<SharedDataset> open_set(comm::Communicator& group, const data::DataSettings& settings,
                                          std::uint64_t seed, const data::Fold* fold = nullptr);

 private:
  struct Groups;
  class Signals;
  std::shared_ptr<SharedDataset> open_whole_set(comm::Communicator& group, const data::DataSettings& settings,
                                                const std::string& terms, std::uint64_t seed);

  comm::Communicator& ranks_;
  Log& log_;
  const Runtime& runtime_;
  std::unique_ptr<Signals> signals_;  ///< null: signals are not heeded
  const Job* whole_ = nullptr;        ///< the job of which this is a part; null: of none
  std::shared_ptr<const NodePlace> place_;
  std::unique_ptr<Groups> groups_;
};

/// From now on SIGTERM, SIGINT and SIGUSR1 are recorded for the next job that heeds them: a signal that arrives while
/// MPI starts, or while the set is read, ends the run after its first step. A second SIGTERM or SIGINT ends the process
/// at once.
void hold_stop_signals();

}  // namespace unisono::session
