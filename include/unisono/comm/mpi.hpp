#pragma once

#include <functional>
#include <memory>

#include "unisono/comm/communicator.hpp"

namespace unisono {

struct CommunicationSettings {
  double timeout_seconds = 300;   ///< a rank that does not arrive at a collective within it ends the job
  std::int64_t bucket_bytes = 0;  ///< of gradients per started allreduce; 0: chosen
  bool shared_memory = true;      ///< reduce in a window shared by the ranks of a node
  void describe(class ConfigVisitor& visitor);
};

/// Initialises MPI for its lifetime. One per process.
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

  /// All ranks of the job.
  /// \param last_step what to report of a rank that does not arrive: where it was
  std::unique_ptr<Communicator> world(const CommunicationSettings& settings);

  /// Collective where possible: ranks agree on the largest of their exit codes within a few seconds; where some cannot
  /// be reached, MPI is aborted with this code. Returns the code to exit with.
  int agree_on_exit_code(int code);

 private:
  bool initialised_ = false;
};

}  // namespace unisono
