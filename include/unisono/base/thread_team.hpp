#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>

namespace unisono {

/// Threads that wait for work together: the calling thread and `size() − 1` of its own. Each does one part, however
/// long that takes, may throw, and sleeps while it waits. The loops of the CPU's kernels, of some microseconds each,
/// have a team of their own (cpu/thread_team.hpp), whose threads spin, and take over the work of those that have no
/// core.
class ThreadTeam {
 public:
  /// \param purpose what the threads are for; part of the error message
  /// \throws DeviceError where the threads cannot be started
  explicit ThreadTeam(int size, std::string purpose = "work in parallel");
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const;
  /// Runs work(0) … work(size() − 1), each on a thread of its own, and returns when all are done; work(0) runs on the
  /// calling thread. The threads see what the caller wrote before, and the caller sees what the threads wrote. If
  /// several threads throw, the exception of the one with the lowest number is rethrown.
  void run(const std::function<void(int thread)>& work);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace unisono
