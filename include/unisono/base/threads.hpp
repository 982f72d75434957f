#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "unisono/base/runtime.hpp"

namespace unisono {

/// Threads that are joined when this object is destroyed. Every thread of this program is started here.
class Threads {
 public:
  /// \param purpose what the threads are for; part of the error message: "training"
  /// \param wanted  how many will be started
  /// \param runtime starts them; must outlive this object
  explicit Threads(std::string purpose, int wanted = 1, const Runtime& runtime = machine_runtime());
  /// Joins all threads. The owner must have told them to end before.
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  /// Runs `work`, which must not throw, on a new thread.
  /// \throws DeviceError where the system starts no more, with the number and the limits
  void start(std::function<void()> work);
  /// Waits until all threads have ended; others may then be started.
  void join();
  int size() const { return static_cast<int>(threads_.size()); }

 private:
  std::string purpose_;
  int wanted_;
  const Runtime& runtime_;
  std::vector<std::unique_ptr<StartedWork>> threads_;
};

/// Threads that wait for work together: the calling thread and `size() − 1` of its own. Each does one part, however
/// long that takes, may throw, and sleeps while it waits. It is for work of milliseconds and more;
/// loops of the CPU's kernels, of some microseconds each, have a LoopTeam (kernels/cpu/loop_team.hpp).
class ThreadTeam {
 public:
  /// \param purpose what the threads are for; part of the error message
  /// \throws DeviceError where the threads cannot be started
  /// \param runtime starts them; must outlive this object
  explicit ThreadTeam(int size, std::string purpose = "work in parallel", const Runtime& runtime = machine_runtime());
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const;
  /// Runs work(0) … work(size() − 1), each on a thread of its own, and returns when all are done; work(0) runs on the
  /// calling thread. The threads see what the caller wrote before, and the caller sees what the threads wrote. If
  /// several threads throw, the exception of the one with the lowest number is rethrown.
  void run(const std::function<void(int thread)>& work);
  /// Runs work(thread, i) for i in [first, last): each thread takes the next i when it is done with one. For pieces
  /// that take different times. Otherwise as `run`.
  void run_each(std::size_t first, std::size_t last, const std::function<void(int thread, std::size_t i)>& work);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace unisono
