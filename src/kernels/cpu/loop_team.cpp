#if defined(__x86_64__)
#endif
#include "cpu/loop_team.hpp"

#include <immintrin.h>

#include "unisono/base/errors.hpp"

namespace unisono::kernels::cpu {
namespace {

std::atomic<bool> any_was_reduced{false};

/// Longer than a wait takes where each thread has a core, and than most code between two loops.
constexpr double kSpinSeconds = 50e-6;

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Waits until a value is another one: a moment with the core kept, then asleep. \return whether it slept
template <typename Value>
bool wait_while(const std::atomic<Value>& atomic, Value value) {
  constexpr int kTriesBetweenLooks = 32;
  const Stopwatch watch;
  do {
    for (int i = 0; i < kTriesBetweenLooks; ++i) {
      if (atomic.load(std::memory_order_acquire) != value) return false;
      pause();
    }
  } while (watch.seconds() < kSpinSeconds);
  atomic.wait(value, std::memory_order_acquire);
  return true;
}

constexpr std::uint64_t ticket(std::uint32_t loop, std::uint64_t chunk) { return std::uint64_t{loop} << 32 | chunk; }

Index border(Index count, Index i, Index n) { return count * i / n; }

}  // namespace

bool TeamSize::was_reduced() { return any_was_reduced.exchange(false, std::memory_order_relaxed); }

int TeamSize::members(int threads) {
  if (most_ < threads && clock_->seconds() >= until_) {
    most_ = kAll;
    window_ = {};
  }
  last_ = std::min(threads, most_);
  return last_;
}

void TeamSize::note(const LoopTimes& loop) {
  if (loop.own_share == 0) return;  // says nothing about how long the caller would have taken
  ++window_.loops;
  window_.seconds += loop.seconds;
  window_.alone += (loop.seconds - loop.waited) / loop.own_share;
  if (window_.loops >= kWindowLoops && window_.seconds >= kWindowSeconds) judge();
}

void TeamSize::judge() {
  if (window_.alone < kGain * window_.seconds) {
    if (most_ == kAll && ++failures_ >= kFailuresInARow) any_was_reduced.store(true, std::memory_order_relaxed);
    most_ = std::max(1, last_ / 2);
    until_ = clock_->seconds() + pause_;
    pause_ = std::min(2 * pause_, kLongestPause);
  } else if (most_ == kAll) {
    pause_ = kFirstPause;
    failures_ = 0;
  }
  window_ = {};
}

LoopTeam& LoopTeam::of_this_thread() {
  thread_local LoopTeam team;
  return team;
}

LoopTeam::~LoopTeam() {
  if (helpers() == 0) return;
  ends_ = true;
  for (int thread = 1; thread <= helpers(); ++thread) {
    ++parts_[thread].loop;
    parts_[thread].loop.notify_all();
  }
  helpers_->join();
}

void LoopTeam::grow(int threads) {
  const int wanted = std::min(threads, kMostThreads) - 1;
  if (helpers() >= wanted) return;
  if (!parts_) parts_ = std::make_unique<Part[]>(kMostThreads);
  if (!helpers_) helpers_ = std::make_unique<Threads>("a kernel's loop", wanted);
  while (helpers() < wanted) {
    helpers_->start([this, thread = helpers() + 1] { help(thread); });
  }
}

void LoopTeam::help(int thread) {
  std::atomic<std::uint32_t>& loop = parts_[thread].loop;
  for (std::uint32_t seen = 0;;) {
    wait_while(loop, seen);
    seen = loop.load(std::memory_order_acquire);
    if (ends_.load(std::memory_order_relaxed)) return;
    const int done = take_chunks(seen, thread);
    if (done > 0 && pending_.fetch_sub(done) == done) pending_.notify_all();
  }
}

void LoopTeam::publish(int members, Index count, Work work) {
  members_.store(members, std::memory_order_relaxed);
  count_.store(count, std::memory_order_relaxed);
  call_.store(work.call, std::memory_order_relaxed);
  context_.store(work.context, std::memory_order_relaxed);
  pending_.store(members * kChunks, std::memory_order_relaxed);
  ++loop_;
  for (int part = 0; part < members; ++part) parts_[part].next.store(ticket(loop_, 0), std::memory_order_release);
  for (int thread = 1; thread < members; ++thread) {
    parts_[thread].loop.store(loop_);  // sequentially consistent: notify_all looks for sleepers after it
    parts_[thread].loop.notify_all();
  }
}

/// Its own part first, then those of the threads after it.
int LoopTeam::take_chunks(std::uint32_t loop, int thread) {
  const int members = members_.load(std::memory_order_relaxed);
  int done = 0;
  for (int i = 0; i < members; ++i) done += take_chunks_of(loop, (thread + i) % members, thread);
  return done;
}

int LoopTeam::take_chunks_of(std::uint32_t loop, int part, int thread) {
  std::atomic<std::uint64_t>& next = parts_[part].next;
  const Index count = count_.load(std::memory_order_relaxed), parts = members_.load(std::memory_order_relaxed);
  const auto call = call_.load(std::memory_order_relaxed);
  const void* const context = context_.load(std::memory_order_relaxed);
  const Index first = border(count, part, parts), size = border(count, part + 1, parts) - first;
  int done = 0;
  std::uint64_t expected = next.load(std::memory_order_acquire);
  for (;;) {
    // A helper that comes late may see a later loop. It takes a chunk only if the part is still of its own loop: then
    // what it has read above is of that loop, too, since the caller cannot go on before the chunk is done.
    const std::uint64_t chunk_number = expected - ticket(loop, 0);
    if (chunk_number >= kChunks) return done;
    if (!next.compare_exchange_weak(expected, expected + 1, std::memory_order_acq_rel)) continue;
    const auto chunk = static_cast<Index>(chunk_number);
    const Index from = first + border(size, chunk, kChunks), to = first + border(size, chunk + 1, kChunks);
    if (from < to) call(context, from, to, thread);
    ++done;
    expected = next.load(std::memory_order_acquire);
  }
}

double LoopTeam::wait_for_helpers() {
  const Stopwatch watch;
  bool slept = false;
  for (int left = pending_.load(std::memory_order_acquire); left != 0;
       left = pending_.load(std::memory_order_acquire)) {
    slept = wait_while(pending_, left) || slept;
  }
  return slept ? watch.seconds() : 0;
}

void LoopTeam::run(int threads, Index count, Work work) {
  int members = static_cast<int>(std::min<Index>(size_.members(std::min(threads, kMostThreads)), count));
  if (members - 1 > helpers() && !refused_) {
    try {
      grow(members);
    } catch (const DeviceError&) {
      refused_ = true;
    }
  }
  members = std::min(members, helpers() + 1);
  if (members <= 1) return work.call(work.context, 0, count, 0);
  const Stopwatch watch;
  publish(members, count, work);
  const int own = take_chunks(loop_, 0);
  pending_ -= own;
  const double waited = wait_for_helpers();
  size_.note({.seconds = watch.seconds(), .waited = waited, .own_share = own / static_cast<double>(members * kChunks)});
}

}  // namespace unisono::kernels::cpu
