#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "unisono/base/runtime.hpp"

namespace unisono {

/// Simulated time for many workers in one process. Each worker runs the code that it would run on a machine of its own,
/// until that code sleeps, waits or computes; then another one goes on. All of them share one thread, and nothing
/// happens at the same time: what comes first is decided by simulated time, and at the same time by who asked first. So
/// a simulation gives the same result on any number of cores. Computations (`compute`, `update`) are really made, on
/// threads beside it, from the simulated moment on at which they begin.
///
/// A worker may start further work (`start`), which is simulated in the same way and belongs to it.
class VirtualRuntime final : public Runtime {
 public:
  /// Simulated seconds of a worker's computation. \param number of the worker's earlier computations
  using Cost = std::function<double(int worker, std::int64_t examples, std::uint64_t number)>;

  /// \param threads of this machine that compute; one of them is the caller's of `run`
  /// \param seconds_per_update of a parameter
  /// \param begin the simulated second at which the simulation begins
  VirtualRuntime(int threads, Cost cost, double seconds_per_update = 0, double begin = 0);
  ~VirtualRuntime() override;
  VirtualRuntime(const VirtualRuntime&) = delete;
  VirtualRuntime& operator=(const VirtualRuntime&) = delete;

  double seconds() const override;
  bool is_virtual() const override { return true; }
  void sleep(double seconds) const override;
  std::unique_ptr<StartedWork> start(std::function<void()> work) const override;
  void compute(std::int64_t examples, const std::function<void()>& work) const override;
  void compute(std::int64_t examples, const std::function<void()>& work, double first,
               const std::function<void(const PassUntil&)>& hand_on) const override;
  void update(std::int64_t parameters, const std::function<void()>& work) const override;

  /// Runs body(worker) for all workers in [0, workers), from the first simulated second on. Returns when all have
  /// ended. \param body must not throw \param stuck called where everybody waits and nothing will happen any more; it
  /// must let someone go on
  void run(int workers, const std::function<void(int worker)>& body, const std::function<void()>& stuck);

  // For communicators of simulated workers.

  /// The worker to which the running work belongs.
  int worker() const;
  /// Calls `act` at a simulated moment, not on anybody's behalf. It must not sleep, wait or throw.
  void at(double seconds, std::function<void()> act) const;
  /// Blocks the running work until `done()` returns true. It is looked at whenever other work of the same worker has
  /// run, and after each `poke`. \param done must be fast, and must not sleep, wait or throw
  void block_until(const std::function<bool()>& done) const;
  /// Has the worker's blocked work look again.
  void poke(int worker) const;
  /// Begins work that takes no simulated time, on a thread of this machine where one is free. Others go on meanwhile:
  /// until `join`, nobody may use what it changes, or change what it reads.
  std::shared_ptr<StartedWork> begin(std::function<void()> work) const;
  /// Computations so far.
  std::int64_t computations() const;

 private:
  class Scheduler;
  void block(const void* key) const override;
  void wake(const void* key) const override;

  std::unique_ptr<Scheduler> scheduler_;
  double seconds_per_update_;
};

}  // namespace unisono
