#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>

#include "unisono/base/clock.hpp"
#include "unisono/base/threads.hpp"
#include "unisono/tensor/allocator.hpp"

namespace unisono::kernels::cpu {

/// How a loop went, from its caller's side.
struct LoopTimes {
  double seconds = 0;    ///< from its begin to its end
  double waited = 0;     ///< of these, the caller slept until helpers had done what they had taken
  double own_share = 1;  ///< of the work, that the caller did
};

/// Decides how many threads take part in loops. The caller alone would have taken about
///     Σ (seconds − waited) / own_share
/// for the loops of a window. Where that is clearly less than they took, helpers have no cores of their own: they lose
/// them in the middle of what they have taken. Then only half as many threads take part, for a pause that doubles each
/// time.
class TeamSize {
 public:
  explicit TeamSize(const Clock& clock = steady_clock()) : clock_(&clock) {}

  /// How many of so many threads should take part in the next loop.
  int members(int threads);
  /// Notes a loop that several threads took part in.
  void note(const LoopTimes& loop);

  /// Whether all threads were too many several times in a row since this was last asked, in any team of this process.
  static bool was_reduced();

 private:
  static constexpr double kWindowSeconds = 0.02, kFirstPause = 0.1, kLongestPause = 5;  // 0.1, 0.2, … s
  static constexpr double kGain = 0.9;  // of the time, at most, that the caller alone would take
  static constexpr int kWindowLoops = 16, kFailuresInARow = 3;
  static constexpr int kAll = std::numeric_limits<int>::max();

  void judge();

  const Clock* clock_;
  int most_ = kAll;   ///< threads that take part now
  int last_ = 1;      ///< that took part in the last loop
  double until_ = 0;  ///< when all may take part again
  double pause_ = kFirstPause;
  int failures_ = 0;  ///< times in a row that all threads were too many

  struct Window {
    int loops = 0;
    double seconds = 0, alone = 0;  ///< that they took, and that the caller alone would have taken
  } window_;
};

/// The threads that share a loop of some microseconds: the caller and its helpers. It is another class than ThreadTeam
/// (unisono/base/threads.hpp), whose threads sleep between two pieces of work and would take longer to wake than such a
/// loop takes, and whose parts nobody else takes over.
///
/// Each thread has a part of the loop of its own, as long as it comes: the same part in each loop, whose data are in
/// its caches. A part is divided into chunks. Who has done its own chunks takes those of others, so a helper that has
/// no core holds nobody up, unless it lost its core in the middle of a chunk. Who waits spins for a moment and then
/// sleeps: other programs get the core. Where the waits cost more than helpers bring, fewer threads take part
/// (TeamSize).
class LoopTeam {
 public:
  /// Work on the indices [first, last), by one of the threads 0, 1, …
  struct Work {
    void (*call)(const void* context, Index first, Index last, int thread);
    const void* context;

    /// \param function (first, last, thread); it must outlive the work, and must not throw
    template <typename Function>
    static Work of(const Function& function) {
      return {[](const void* with, Index first, Index last, int thread) noexcept {
                (*static_cast<const Function*>(with))(first, last, thread);
              },
              &function};
    }
  };

  LoopTeam() = default;
  ~LoopTeam();
  LoopTeam(const LoopTeam&) = delete;
  LoopTeam& operator=(const LoopTeam&) = delete;

  /// The calling thread's own.
  static LoopTeam& of_this_thread();

  /// Starts helpers, so that `threads` can take part. \throws DeviceError where the system starts no more
  void grow(int threads);
  /// Does the work on parts of [0, count), each index once. At most `threads` take part, and fewer where the system
  /// starts no more. \param threads at most kMostThreads
  void run(int threads, Index count, Work work);

  static constexpr int kMostThreads = 1024;

 private:
  static constexpr int kChunks = 4;  ///< of a part

  /// A thread's part of a loop.
  struct alignas(64) Part {
    std::atomic<std::uint64_t> next{kChunks};  ///< its next chunk: loop · 2³² + chunk
    std::atomic<std::uint32_t> loop{0};        ///< in which the thread takes part; a helper waits for the next one
  };

  void help(int thread);
  void publish(int members, Index count, Work work);
  /// \return how many chunks the thread has done
  int take_chunks(std::uint32_t loop, int thread);
  int take_chunks_of(std::uint32_t loop, int part, int thread);
  /// \return the seconds that it took, if they were more than a moment; else 0
  double wait_for_helpers();

  int helpers() const { return helpers_ ? helpers_->size() : 0; }

  std::unique_ptr<Part[]> parts_;
  std::uint32_t loop_ = 0;  ///< the caller's
  bool refused_ = false;    ///< the system has started fewer helpers than wanted
  std::atomic<bool> ends_{false};
  std::atomic<int> members_{0};
  std::atomic<Index> count_{0};
  std::atomic<void (*)(const void*, Index, Index, int)> call_{nullptr};
  std::atomic<const void*> context_{nullptr};
  alignas(64) std::atomic<int> pending_{0};  ///< chunks that are not done
  TeamSize size_;
  std::unique_ptr<Threads> helpers_;
};

/// Calls work(first, last, thread) on parts of [0, count) until each index has been worked on once; a thread may be
/// called several times. What is computed for an index must not depend on the part that it is in. `work` must not
/// throw.
template <typename Work>
void parallel_ranges(int threads, Index count, const Work& work) {
  if (threads <= 1 || count <= 1) return work(Index{0}, count, 0);
  LoopTeam::of_this_thread().run(threads, count, LoopTeam::Work::of(work));
}

/// Calls work(i) for every i in [0, count), in no particular order.
template <typename Work>
void parallel_for(int threads, Index count, const Work& work) {
  parallel_ranges(threads, count, [&work](Index first, Index last, int) {
    for (Index i = first; i < last; ++i) work(i);
  });
}

/// The workspace of a kernel. It is kept between calls, so that steps after the first one allocate nothing.
class Scratch {
 public:
  /// At least so many floats, aligned to kAlignmentBytes, with any values; memory from an earlier call becomes invalid.
  float* floats(Index count) {
    if (count > buffer_.size()) {
      buffer_ = Buffer();  // first, so that both are never held at once
      buffer_ = Buffer(count);
    }
    return buffer_.data();
  }
  /// As floats().
  double* doubles(Index count) { return reinterpret_cast<double*>(floats(2 * count)); }
  Index size() const { return buffer_.size(); }  ///< floats

 private:
  Buffer buffer_;
};

/// Floats of a chunk: long vectors are processed in chunks, and sums are made of the chunks' sums, so that they do not
/// depend on the number of threads.
inline constexpr Index kChunk = Index{1} << 14;

inline Index chunks_of(Index size) { return (size + kChunk - 1) / kChunk; }

/// Calls work(first, length) for every chunk of a vector.
template <typename Work>
void parallel_chunks(int threads, Index size, const Work& work) {
  parallel_for(threads, chunks_of(size), [&](Index i) { work(i * kChunk, std::min(kChunk, size - i * kChunk)); });
}

/// Calls work(first, length, sum) for every chunk and returns the total of all sum[0] + sum[1]. The addition is
/// compensated: only the last one rounds.
template <typename Work>
double sum_of_chunks(int threads, Index size, Scratch& partials, const Work& work) {
  const Index chunks = chunks_of(size);
  double* const sums = partials.doubles(2 * chunks);
  parallel_chunks(threads, size, [&](Index first, Index length) { work(first, length, sums + first / kChunk * 2); });
  double sum = 0, rest = 0;
  for (Index i = 0; i < 2 * chunks; i += 2) {
    const double before = sum;
    sum = before + sums[i];
    const double added = sum - before;
    rest += (before - (sum - added)) + (sums[i] - added) + sums[i + 1];
  }
  return sum + rest;
}

}  // namespace unisono::kernels::cpu
