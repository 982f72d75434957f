#include "simulated_cuda/block.hpp"

#include <cstring>
#include <numeric>

#include "simulated_cuda/block_runner.hpp"
#include "simulated_cuda/kernel.hpp"

constinit thread_local uint3 threadIdx{0, 0, 0};
constinit thread_local uint3 blockIdx{0, 0, 0};
constinit thread_local dim3 blockDim{};
constinit thread_local dim3 gridDim{};

namespace simulated {
namespace {

constexpr std::byte unwritten{0xFF};
thread_local BlockRunner* active = nullptr;

BlockRunner& runner() {
  thread_local BlockRunner runner;
  return runner;
}

/// Visits 0 … count−1 in an order that the seed chooses: start, start + step, … modulo count.
class Order {
 public:
  Order(std::uint64_t count, std::uint64_t seed) : count_(count) {
    if (seed == 0 || count < 2) return;
    std::uint64_t mixed = (seed ^ count * 0x9E3779B97F4A7C15U) * 0xBF58476D1CE4E5B9U;
    at_ = (mixed >> 17) % count;
    step_ = (mixed >> 7) % count;
    while (std::gcd(step_, count) != 1) ++step_;
  }
  std::uint64_t at() const { return at_; }
  void advance() { at_ = (at_ + step_) % count_; }

 private:
  std::uint64_t count_;
  std::uint64_t at_ = 0;
  std::uint64_t step_ = 1;
};

}  // namespace

uint3 position(unsigned linear, const dim3& size) {
  return {linear % size.x, linear / size.x % size.y, linear / (size.x * size.y)};
}

bool same(const Place& a, const Place& b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

BlockRunner*& active_runner() { return active; }

void BlockRunner::begin_block(const Grid& grid, bool descending) {
  grid_ = &grid;
  size_ = grid.threads.x * grid.threads.y * grid.threads.z;
  next_ = ended_ = at_barrier_ = 0;
  descending_ = wake_descending_ = descending;
  if (threads_.size() < size_) threads_.resize(size_);
  for (unsigned t = 0; t < size_; ++t) threads_[t].state = State::unstarted;
  gatherings_.clear();
  ready_.clear();
  first_ready_ = 0;
  std::memset(shared_.get(), static_cast<int>(unwritten), grid.shared_bytes + guard_bytes);
}

void BlockRunner::end_block() {
  for (std::size_t i = 0; i < guard_bytes; ++i) {
    if (shared_[grid_->shared_bytes + i] != unwritten) {
      fatal("the block wrote past its %zu bytes of dynamic shared memory", grid_->shared_bytes);
    }
  }
  grid_ = nullptr;
}

void BlockRunner::run(const Grid& grid, bool descending) {
  begin_block(grid, descending);
  while (ended_ < size_) {
    if (first_ready_ < ready_.size()) {
      const unsigned thread = ready_[first_ready_++];
      if (first_ready_ == ready_.size()) {
        ready_.clear();
        first_ready_ = 0;
      }
      settle(thread, threads_[thread].index);
      enter(*threads_[thread].fiber);
    } else if (next_ < size_) {
      if (idle_.empty()) idle_.push_back(fibers_.emplace_back(std::make_unique<Fiber>(fiber_body)).get());
      Fiber& fiber = *idle_.back();
      idle_.pop_back();
      enter(fiber);
    } else {
      nobody_can_run();
    }
  }
  end_block();
}

void BlockRunner::enter(Fiber& fiber) {
  fiber_ = &fiber;
  fiber.enter();
}

void BlockRunner::fiber_body() {
  for (;;) {
    active->start_threads();
    active->idle_.push_back(active->fiber_);
    Fiber::leave();
  }
}

/// Runs threads that were not started yet, one after the other on this fiber, for as long as they do not wait. One that
/// has waited ends here, too, when its fiber is entered again.
void BlockRunner::start_threads() {
  while (next_ < size_ && first_ready_ == ready_.size()) {
    const unsigned thread = descending_ ? size_ - 1 - next_ : next_;
    ++next_;
    settle(thread, position(thread, grid_->threads));
    grid_->body(grid_->arguments);
    threads_[current_].state = State::ended;
    ++ended_;
  }
}

void BlockRunner::settle(unsigned thread, const uint3& index) {
  current_ = thread;
  threads_[thread].state = State::running;
  threadIdx = index;
}

void BlockRunner::wait(State state) {
  const unsigned self = current_;
  threads_[self].state = state;
  threads_[self].fiber = fiber_;
  threads_[self].index = threadIdx;
  Fiber::leave();
}

void BlockRunner::wake(unsigned thread) {
  if (thread != current_) ready_.push_back(thread);
}

void BlockRunner::meet_block(const Place& where) {
  if (at_barrier_ == 0) barrier_ = where;
  threads_[current_].where = where;
  if (!same(barrier_, where)) {
    fatal("threads of one block wait at different barriers: %s:%u and %s:%u", barrier_.file, barrier_.line, where.file,
          where.line);
  }
  if (++at_barrier_ < size_) return wait(State::at_barrier);
  at_barrier_ = 0;
  wake_descending_ = !wake_descending_;
  for (unsigned t = 0; t < size_; ++t) wake(wake_descending_ ? size_ - 1 - t : t);
}

void meet_block(const Place& where) { active->meet_block(where); }

std::uint64_t meet_warp(Exchange kind, unsigned mask, std::uint64_t value, unsigned source, const Place& where) {
  Thread wish;
  wish.mask = mask;
  wish.value = value;
  wish.source = source;
  wish.where = where;
  return active->meet_warp(kind, wish);
}

unsigned lane() { return active->current() % lanes; }
std::byte* dynamic_shared() { return active->shared(); }
bool inside_kernel() { return active != nullptr; }

void run_grid(const Grid& grid, std::uint64_t seed) {
  active = &runner();
  blockDim = grid.threads;
  gridDim = grid.blocks;
  const std::uint64_t count = std::uint64_t{grid.blocks.x} * grid.blocks.y * grid.blocks.z;
  Order order(count, seed);
  for (std::uint64_t i = 0; i < count; ++i, order.advance()) {
    const std::uint64_t block = order.at();
    blockIdx.x = static_cast<unsigned>(block % grid.blocks.x);
    blockIdx.y = static_cast<unsigned>(block / grid.blocks.x % grid.blocks.y);
    blockIdx.z = static_cast<unsigned>(block / grid.blocks.x / grid.blocks.y);
    active->run(grid, seed != 0 && i % 2 == 1);
  }
  active = nullptr;
}

}  // namespace simulated
