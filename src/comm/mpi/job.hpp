#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "control.hpp"
#include "message_operations.hpp"
#include "topology.hpp"
#include "unisono/base/clock.hpp"
#include "unisono/comm/communicator.hpp"

namespace unisono::comm {

/// What a thread does with its core while it waits.
enum class Waiting {
  spins,   ///< keeps it at first: most waits take only microseconds
  sleeps,  ///< sleeps between two polls: other threads of this process need it
};

/// When this rank had its messages, where somebody wants to know it. May be used by any thread.
class ArrivalLog {
 public:
  void begin(double zero);
  bool is_on() const { return is_on_; }
  void add(int from, int to, int tag);
  /// What was added since `begin`; nothing more is.
  std::vector<Arrival> take();

 private:
  std::atomic<bool> is_on_ = false;
  std::mutex mutex_;
  double zero_ = 0;
  std::vector<Arrival> arrivals_;
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
  const mpi::Control& control() const { return control_; }
  mpi::Steps& steps() { return steps_; }
  ArrivalLog& arrivals() { return arrivals_; }
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

  /// Waits until all ranks have announced their end, or until five seconds after the first failure became known; not
  /// for ranks that did not answer this one. \return whether all have
  bool meet();
  /// From now on `meet` waits at most so long.
  void limit_end(double seconds) { end_limit_ = seconds; }
  std::optional<double> end_limit() const { return end_limit_; }

 private:
  class WaitMonitor;
  void wait_watched(const std::function<bool()>& done, const mpi::Place& place, Waiting waiting);

  mpi::Roster roster_;
  mpi::Group everyone_;
  MPI_Comm communicator_ = MPI_COMM_NULL;  ///< of everyone
  mpi::Steps steps_;
  ArrivalLog arrivals_;
  std::optional<double> end_limit_;  ///< seconds
  mpi::Control control_;
  std::set<int> silent_;    ///< ranks that did not answer this one
  mpi::Progress progress_;  // last: its thread ends first
  std::atomic<bool> gave_up_ = false;
  std::mutex letting_go_;  ///< several threads may fail at once
  std::optional<Stopwatch> since_letting_go_;
};

}  // namespace unisono::comm

namespace unisono::comm::mpi {

/// A request for an operation that is under way.
class Started final : public Request, private Operation {
 public:
  /// \param in_flight counts this one until it is done; may be null
  Started(MpiJob& job, std::unique_ptr<Operation> operation, const Place& place, std::atomic<int>* in_flight = nullptr);
  /// Lets `wait` call this when the operation is done.
  void when_done(std::function<void()> act) { when_done_ = std::move(act); }
  /// Abandons the operation where it is not done.
  ~Started() override;
  Started(const Started&) = delete;
  Started& operator=(const Started&) = delete;

  void wait() override;
  bool test() override;
  bool wait_unless(const std::function<bool()>& enough) override;
  void wait_for_arrivals() override;
  /// Blocks until one of these is done or `enough()` returns true. \param any at least one \return the indices of those
  /// that are done
  static std::vector<std::size_t> wait_any(std::span<Started* const> any, const std::function<bool()>& enough);

 private:
  bool advance() override;
  bool let_go() override { return operation_->let_go(); }
  bool is_patient() const override { return operation_->is_patient(); }

  MpiJob& job_;
  std::unique_ptr<Operation> operation_;
  Place place_;
  std::atomic<int>* in_flight_;
  std::function<void()> when_done_;
  int counted_;  // keeps the order: counted before it begins
  bool done_ = false;
  Progress::Entry entry_;
};

/// The request of an operation that has nothing to do, e.g. in a group of one rank.
class NothingToDo final : public Request {
 public:
  void wait() override {}
  bool test() override { return true; }
  bool wait_unless(const std::function<bool()>&) override { return true; }
};

/// A variable of the environment; empty where it is not set.
using Environment = std::function<std::string(const char* name)>;
Environment process_environment();

/// What is wrong with how this process was started, if MPI sees `size` ranks: the launcher says that it is one of more.
/// Empty where all is well. A shell inside a Slurm allocation is no task of it, however many tasks the allocation has.
std::string launch_problem(const Environment& environment, int size);

/// Whether this process is the first one of the launcher, or was started without a launcher.
bool is_first_of_launch(const Environment& environment);

/// Whether this process is the launcher's first one on its node, or was started without a launcher.
bool is_first_of_node(const Environment& environment);

/// Where the other ranks of the job are, as the launcher's environment variables say.
enum class Peers {
  none,          ///< nobody launched this process: it is alone
  on_this_node,  ///< Open MPI's mpirun started all ranks on this node
  unknown
};
Peers launched_peers(const Environment& environment);

/// Whether more ranks were started on this node than cores may run them, as far as Open MPI's launcher says.
bool launched_more_ranks_than_cores(const Environment& environment, int allowed_cores, int all_cores);

/// Open MPI's shared memory consists of files (segments), which remain when processes are killed:
/// vader_segment.HOST.USER.JOB.RANK for messages, osc_sm.HOST.JOB.RANK.WINDOW for windows; JOB is hexadecimal.
inline constexpr const char* kSharedMemoryFolder = "/dev/shm";

/// Removes this user's segments that no process, of this program or another, has open or mapped. Does nothing where the
/// folder is not a tmpfs: elsewhere it is not certain who uses a file.
void remove_dead_segments(const std::string& folder = kSharedMemoryFolder);

/// Removes the segments of one job, which is about to end. Processes that have them mapped can still use them.
/// \param job PMIX_NAMESPACE, where it is a number
void remove_segments_of(const std::string& job, const std::string& folder = kSharedMemoryFolder);

}  // namespace unisono::comm::mpi
