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

/// `[communication]`
struct CommunicationSettings {
  double timeout_seconds = 300;   ///< a rank that does not arrive at a collective within it ends the job
  std::int64_t bucket_bytes = 0;  ///< of gradients per started allreduce; 0: chosen
  bool shared_memory = true;      ///< reduce in a window shared by the ranks of a node
  DeviceTransport device_transport = DeviceTransport::automatic;
  std::int64_t ranks_per_node = 0;  ///< tests pretend that nodes are so small; 0: as they are. No key of the config
  void describe(ConfigVisitor& visitor);
};

/// Says what was done otherwise than asked, e.g. that there is no room for a shared window; called on one rank of the
/// node that it concerns.
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
/// session leaves that to whoever did it.
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

  /// The normal end of this rank, with an exit code. Waits for all others to end.
  /// \return the code to exit with: that of the lowest rank that failed, else the largest of all
  int finish(int code);

  /// The end of this rank by an exception: an Error has its code, std::bad_alloc is ExitCode::device, any other is
  /// ExitCode::other. The others learn of it within a second where they communicate (PeerFailure there), and all meet.
  /// Only the lowest of the ranks that failed by themselves calls `print`. Where some rank cannot be reached within
  /// five seconds, MPI is aborted with the code after printing. \return the code to exit with, on every rank: that of
  /// the rank that prints
  int fail(const std::exception& error, const std::function<void()>& print);

 private:
  std::shared_ptr<class MpiJob> job_;
};

/// Where the launcher started several processes that MPI does not know as ranks: whether this is the first of them, the
/// one that should speak.
bool is_first_of_launch();

}  // namespace unisono::comm
