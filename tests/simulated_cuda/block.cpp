#include "simulated_cuda/block.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "simulated_cuda/fiber.hpp"
#include "simulated_cuda/kernel.hpp"

constinit thread_local uint3 threadIdx{0, 0, 0};
constinit thread_local uint3 blockIdx{0, 0, 0};
constinit thread_local dim3 blockDim{};
constinit thread_local dim3 gridDim{};

namespace simulated {
namespace {

constexpr std::size_t most_shared_bytes = 227 * 1024;
constexpr std::size_t guard_bytes = 64;  // behind the shared memory, to see who writes past it
constexpr std::byte unwritten{0xFF};

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

bool same(const Place& a, const Place& b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

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

BlockRunner& runner() {
  thread_local BlockRunner runner;
  return runner;
}
thread_local BlockRunner* active = nullptr;  // while a kernel runs

uint3 position(unsigned linear, const dim3& size) {
  return {linear % size.x, linear / size.x % size.y, linear / (size.x * size.y)};
}

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

std::uint64_t BlockRunner::meet_warp(Exchange kind, const Thread& wish) {
  const unsigned self = current_;
  const unsigned warp = self / lanes;
  const unsigned present = size_ - warp * lanes >= lanes ? ~0U : (1U << (size_ - warp * lanes)) - 1;
  if ((wish.mask & (1U << self % lanes)) == 0) fatal("a lane calls a warp's exchange and is not in its mask");
  if ((wish.mask & ~present) != 0) {
    fatal("%s:%u: the mask %08x names lanes that the block's last warp lacks", wish.where.file, wish.where.line,
          wish.mask);
  }
  Thread& thread = threads_[self];
  thread.mask = wish.mask;
  thread.value = wish.value;
  thread.source = wish.source;
  thread.where = wish.where;
  std::size_t i = 0;
  for (; i < gatherings_.size(); ++i) {
    const Gathering& g = gatherings_[i];
    if (g.warp == warp && g.mask == wish.mask && g.kind == kind && same(g.where, wish.where)) break;
  }
  if (i == gatherings_.size()) gatherings_.push_back({warp, wish.mask, 0, kind, wish.where});
  Gathering& gathering = gatherings_[i];
  gathering.here |= 1U << self % lanes;
  if (gathering.here == gathering.mask) {
    exchange(gathering);
    std::swap(gathering, gatherings_.back());
    gatherings_.pop_back();
  } else {
    wait(State::in_warp);
  }
  return threads_[self].result;
}

/// All lanes are here: computes what each gets and lets them go on.
void BlockRunner::exchange(const Gathering& gathering) {
  Thread* const warp = &threads_[gathering.warp * lanes];
  std::uint64_t votes = 0;
  for (unsigned l = 0; l < lanes; ++l) {
    if ((gathering.mask >> l & 1U) != 0 && warp[l].value != 0) votes |= 1U << l;
  }
  for (unsigned l = 0; l < lanes; ++l) {
    if ((gathering.mask >> l & 1U) == 0) continue;
    const unsigned source = warp[l].source;
    if (gathering.kind == Exchange::shuffle && (gathering.mask >> source & 1U) == 0) {
      fatal("%s:%u: lane %u shuffles with lane %u, which is not in the mask %08x", gathering.where.file,
            gathering.where.line, l, source, gathering.mask);
    }
    warp[l].result = gathering.kind == Exchange::shuffle ? warp[source].value : votes;
    wake(gathering.warp * lanes + l);
  }
}

std::string BlockRunner::place(unsigned thread) const {
  const uint3 t = position(thread, grid_->threads);
  char text[120];
  std::snprintf(text, sizeof text, "thread (%u, %u, %u) of block (%u, %u, %u)", t.x, t.y, t.z, blockIdx.x, blockIdx.y,
                blockIdx.z);
  return text;
}

void BlockRunner::nobody_can_run() const {
  unsigned waiting = 0;
  while (threads_[waiting].state == State::ended) ++waiting;
  const Thread& thread = threads_[waiting];
  const bool barrier = thread.state == State::at_barrier;
  const unsigned first = barrier ? 0 : waiting / lanes * lanes;
  const unsigned last = barrier ? size_ : std::min(size_, first + lanes);
  unsigned other = first;
  const auto comes = [&](unsigned t) {
    return barrier ? threads_[t].state == State::at_barrier
                   : (thread.mask >> t % lanes & 1U) == 0 ||
                         (threads_[t].state == State::in_warp && threads_[t].mask == thread.mask &&
                          same(threads_[t].where, thread.where));
  };
  while (other + 1 < last && comes(other)) ++other;
  std::string why = place(other) + " has returned";
  if (threads_[other].state != State::ended) {
    why = place(other) + " waits at " + threads_[other].where.file + ":" + std::to_string(threads_[other].where.line);
  }
  std::fprintf(stderr, "simulated CUDA: %s waits at %s in %s:%u, and %s\n", place(waiting).c_str(),
               barrier ? "a barrier" : "an exchange of its warp", thread.where.file, thread.where.line, why.c_str());
  std::abort();
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

void fatal(const char* format, ...) {
  std::fputs("simulated CUDA: ", stderr);
  if (active != nullptr && active->in_block()) std::fprintf(stderr, "%s: ", active->place(active->current()).c_str());
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
  std::fputc('\n', stderr);
  std::abort();
}

}  // namespace simulated
