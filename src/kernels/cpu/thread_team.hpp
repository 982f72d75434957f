#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "cpu/team_size.hpp"
#include "unisono/base/threads.hpp"
#include "unisono/tensor/allocator.hpp"

namespace unisono::kernels::cpu {

/// The threads that share a loop: the caller and its helpers.
///
/// Each thread has a part of the loop of its own, as long as it comes: the same part in each loop, whose data are in
/// its caches. A part is divided into chunks. Who has done its own chunks takes those of others, so a helper that has
/// no core holds nobody up, unless it lost its core in the middle of a chunk. Who waits spins for a moment and then
/// sleeps: other programs get the core. Where the waits cost more than helpers bring, fewer threads take part
/// (TeamSize).
class ThreadTeam {
 public:
  /// Work on the indices [first, last), by one of the threads 0, 1, …
  struct Work {
    void (*call)(const void* context, Index first, Index last, int thread);
    const void* context;

    /// \param function (first, last, thread); it must outlive the work, and must not throw
    template <typename Function>
    static Work of(const Function& function) {
      return {[](const void* context, Index first, Index last, int thread) noexcept {
                (*static_cast<const Function*>(context))(first, last, thread);
              },
              &function};
    }
  };

  ThreadTeam() = default;
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  /// The calling thread's own.
  static ThreadTeam& of_this_thread();

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

}  // namespace unisono::kernels::cpu
