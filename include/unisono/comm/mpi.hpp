#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "unisono/comm/communicator.hpp"

namespace unisono {
class ConfigVisitor;
}

namespace unisono::comm {

/// How values travel between GPUs.
enum class DeviceTransport { automatic, nccl, staged };

/// How gradients are summed over ranks.
enum class Reduction {
  fast,         ///< in the order of the ranks: the sum's last bits depend on the number of ranks
  reproducible  ///< in the order of a fixed tree: the same bits on any number of ranks
};

/// `[communication]`
struct CommunicationSettings {
  /// Leaves of the tree of reproducible sums; 0: sums are fast.
  int tree_leaves() const { return reduction == Reduction::reproducible ? static_cast<int>(leaves) : 0; }

  double timeout_seconds = 300;   ///< a rank that does not arrive at a collective within this time ends the job
  std::int64_t bucket_bytes = 0;  ///< bytes of gradient per started allreduce; 0: chosen automatically
  bool shared_memory = true;      ///< reduce in a window shared by the ranks of a node
  Reduction reduction = Reduction::fast;
  std::int64_t leaves = 8;  ///< leaves of the tree by which Reduction::reproducible adds gradients
  DeviceTransport device_transport = DeviceTransport::automatic;
  bool record_times = false;        ///< write when gradients were computed and messages arrived, for simulations
  std::int64_t ranks_per_node = 0;  ///< tests simulate nodes of so few ranks; 0: real nodes. Not a key
  void describe(ConfigVisitor& visitor);
};

/// Reports that something works otherwise than asked, e.g. that there is no room for a shared window. Called on one
/// rank of the node concerned.
using Warn = std::function<void(const std::string&)>;

/// Initialises MPI for its lifetime. One per process, made first and destroyed last:
///
///     int main(int argc, char** argv) {
///       try {
///         MpiSession session(argc, argv);
///         try {
///           return session.finish(run(session, argc, argv));
///         } catch (const std::exception& error) {
///           return session.fail(error, [&] { print(error); });
///         }
///       } catch (const LaunchError& error) {
///         if (is_first_of_launch()) print(error);
///         return static_cast<int>(error.code());
///       }
///     }
///
/// Communicators must be gone when `finish` or `fail` is called. Where MPI was initialised before (by tests), the
/// session does not finalise it.
class MpiSession {
 public:
  /// \throws LaunchError where this process was started as one of several but sees itself alone (a wrong srun, a
  /// foreign mpirun).
  MpiSession(int& argc, char**& argv);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  int rank() const;
  int size() const;

  /// All ranks of the job. Collective.
  std::unique_ptr<Communicator> world(const CommunicationSettings& settings, Warn warn = {});

  /// Called when the results of a job are stored, and its ranks have nothing left but to end. From now on this rank
  /// waits at most so long for others: then the job ends with what `finish` got, although a rank is stopped or stuck.
  /// A rank that is killed now does not change the exit code of scripts/launch.
  void results_are_stored(double seconds);

  /// Ends this rank normally, with an exit code. Waits for all others to end.
  /// \return the code to exit with: that of the lowest rank that failed, else the largest of all
  int finish(int code);

  /// Ends this rank because of an exception. The exit code is that of an Error, ExitCode::device for std::bad_alloc,
  /// and ExitCode::other for any other. The other ranks get a PeerFailure within a second if they communicate; all wait
  /// for each other to end. Only the lowest of the ranks that failed by themselves calls `print`. Where some rank does
  /// not end within five seconds, MPI is aborted with the code after printing. \return the code to exit with, on every
  /// rank: that of the rank that prints
  int fail(const std::exception& error, const std::function<void()>& print);

 private:
  std::shared_ptr<class MpiJob> job_;
};

/// For a LaunchError, where the launcher started several processes that MPI does not see as ranks: whether this process
/// is the first of them, which alone should print.
bool is_first_of_launch();

}  // namespace unisono::comm
