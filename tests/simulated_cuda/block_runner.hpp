#pragma once
// How the threads of a block take turns.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "simulated_cuda/block.hpp"
#include "simulated_cuda/fiber.hpp"

namespace simulated {

constexpr std::size_t most_shared_bytes = 227 * 1024;
constexpr std::size_t guard_bytes = 64;  // behind the shared memory, to see who writes past it

enum class State : std::uint8_t { unstarted, running, at_barrier, in_warp, ended };

struct Thread {
  State state = State::unstarted;
  Fiber* fiber = nullptr;  // on which it waits
  unsigned mask = 0;       // lanes that it waits for
  unsigned source = 0;
  std::uint64_t value = 0;
  std::uint64_t result = 0;
  Place where;
  uint3 index{};
};

/// Lanes of a warp that have come to one exchange, which is not complete yet.
struct Gathering {
  unsigned warp = 0;
  unsigned mask = 0;
  unsigned here = 0;  // bits of the lanes that have come
  Exchange kind = Exchange::wait;
  Place where;
};

bool same(const Place& a, const Place& b);

/// The position of a thread in its block, x fastest.
uint3 position(unsigned linear, const dim3& size);

/// Runs blocks on this host thread; the stacks are kept for later ones.
class BlockRunner {
 public:
  void run(const Grid& grid, bool descending);
  void meet_block(const Place& where);
  std::uint64_t meet_warp(Exchange kind, const Thread& wish);
  std::byte* shared() { return shared_.get(); }
  unsigned current() const { return current_; }
  bool in_block() const { return grid_ != nullptr; }
  std::string place(unsigned thread) const;

 private:
  static void fiber_body();
  void start_threads();
  void wait(State state);
  void wake(unsigned thread);
  void exchange(const Gathering& gathering);
  void begin_block(const Grid& grid, bool descending);
  void end_block();
  void enter(Fiber& fiber);
  void settle(unsigned thread, const uint3& index);
  [[noreturn]] void nobody_can_run() const;

  const Grid* grid_ = nullptr;
  unsigned size_ = 0;  // threads in the block
  unsigned next_ = 0;  // how many were started
  unsigned ended_ = 0;
  unsigned current_ = 0;  // the running one
  bool descending_ = false;
  bool wake_descending_ = false;
  unsigned at_barrier_ = 0;
  Place barrier_;
  std::vector<Thread> threads_;
  std::vector<Gathering> gatherings_;
  std::vector<unsigned> ready_;
  std::size_t first_ready_ = 0;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  Fiber* fiber_ = nullptr;  // the running one
  std::unique_ptr<std::byte[]> shared_ = std::make_unique<std::byte[]>(most_shared_bytes + guard_bytes);
};

/// The one of this host thread while a kernel runs on it; nullptr otherwise.
BlockRunner*& active_runner();

}  // namespace simulated
