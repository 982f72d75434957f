#pragma once

#include <algorithm>

#include "cpu/thread_team.hpp"
#include "unisono/tensor/allocator.hpp"

namespace unisono::kernels::cpu {

/// Calls work(first, last, thread) on parts of [0, count) until each index has been worked on once; a thread may be
/// called several times. What is computed for an index must not depend on the part that it is in. `work` must not
/// throw.
template <typename Work>
void parallel_ranges(int threads, Index count, const Work& work) {
  if (threads <= 1 || count <= 1) return work(Index{0}, count, 0);
  ThreadTeam::of_this_thread().run(threads, count, ThreadTeam::Work::of(work));
}

/// Calls work(i) for every i in [0, count), in no particular order.
template <typename Work>
void parallel_for(int threads, Index count, const Work& work) {
  parallel_ranges(threads, count, [&work](Index first, Index last, int) {
    for (Index i = first; i < last; ++i) work(i);
  });
}

}  // namespace unisono::kernels::cpu
