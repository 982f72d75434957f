#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "unisono/base/clock.hpp"

namespace unisono {

/// Work that goes on beside whoever started it. It must be joined before it is destroyed.
class StartedWork {
 public:
  virtual ~StartedWork() = default;
  /// Waits until the work has ended.
  virtual void join() = 0;
};

/// What passes time: sleeping, waiting, computing, and work beside other work. This class is the machine's own time and
/// its threads; VirtualRuntime simulates both. Whoever trains asks the Runtime that it was given, and so can be
/// simulated. May be used by any thread.
class Runtime : public Clock {
 public:
  double seconds() const override;
  /// Whether time is simulated.
  virtual bool is_virtual() const { return false; }
  virtual void sleep(double seconds) const;
  /// Runs `work`, which must not throw, beside the caller: on a thread of its own.
  /// \throws std::system_error where the system starts no more threads
  virtual std::unique_ptr<StartedWork> start(std::function<void()> work) const;
  /// Runs `work`, a computation on so many examples; returns when it is done, and rethrows what it throws. It must not
  /// wait for anybody, and nobody may change what it reads meanwhile.
  virtual void compute(std::int64_t examples, const std::function<void()>& work) const;
  /// Waits until so large a share of a computation's seconds has passed.
  using PassUntil = std::function<void(double share)>;
  /// The same, where others need parts of the result before all of it is there. After `first`, a share of the
  /// computation's seconds, the work is done, and `hand_on` is called, which passes the rest of them between the parts.
  virtual void compute(std::int64_t examples, const std::function<void()>& work, double first,
                       const std::function<void(const PassUntil&)>& hand_on) const;
  /// Runs `work`, an update of so many parameters, as `compute` does a computation.
  virtual void update(std::int64_t parameters, const std::function<void()>& work) const;

 private:
  friend class Condition;
  /// Blocks until `wake` is called with the same key. Only where time is simulated.
  virtual void block(const void* key) const;
  virtual void wake(const void* key) const;
};

/// The machine's own time and threads.
const Runtime& machine_runtime();

/// A condition variable for threads that a Runtime has started.
class Condition {
 public:
  explicit Condition(const Runtime& runtime = machine_runtime()) : runtime_(runtime) {}

  /// Waits until `done()` returns true, which is looked at after each notification. The lock is held by the caller, and
  /// during each call of `done`.
  template <typename Done>
  void wait(std::unique_lock<std::mutex>& lock, Done done) {
    while (!done()) wait(lock);
  }
  void notify_all();

 private:
  void wait(std::unique_lock<std::mutex>& lock);

  const Runtime& runtime_;
  std::condition_variable changed_;
};

}  // namespace unisono
