#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <vector>

namespace unisono {

/// Memory for the stacks of fibers. What a fiber no longer needs, the next one gets.
class StackPool {
 public:
  static constexpr std::size_t kStackBytes = std::size_t{512} << 10;  ///< of which only touched pages are memory

  StackPool() = default;
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  /// The lowest address of a stack, below which a page lies that must not be touched.
  /// \throws DeviceError where the system gives no more
  std::byte* take();
  void give_back(std::byte* stack) { free_.push_back(stack); }

 private:
  std::vector<std::byte*> all_, free_;
};

/// Work with a stack of its own, which whoever resumes it lets run until it suspends itself or ends. All fibers run on
/// the thread that resumes them.
class Fiber {
 public:
  /// \param work must not throw \param stacks must outlive the fiber
  Fiber(std::function<void()> work, StackPool& stacks);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs it until it suspends itself or ends. Called outside of all fibers.
  void resume();
  /// Returns to whoever resumed it. Called by the fiber itself.
  void suspend();
  bool has_ended() const { return has_ended_; }

 private:
  /// What the C++ runtime keeps for a thread while exceptions are handled; each fiber has its own.
  struct ExceptionState {
    void* caught = nullptr;
    unsigned uncaught = 0;
  };
  static void enter(unsigned high, unsigned low);
  void run();
  void swap_exceptions();
  void before_switch(bool to_fiber, bool for_good);
  void after_switch(bool in_fiber);

  std::function<void()> work_;
  StackPool& stacks_;
  std::byte* stack_;
  ucontext_t own_{}, resumer_{};
  ExceptionState exceptions_;
  bool has_ended_ = false;
  // Of the sanitizers, which must be told of each switch.
  void *own_fake_stack_ = nullptr, *resumer_fake_stack_ = nullptr;
  const void* resumer_stack_ = nullptr;
  std::size_t resumer_stack_bytes_ = 0;
  void *own_tsan_ = nullptr, *resumer_tsan_ = nullptr;
};

}  // namespace unisono
