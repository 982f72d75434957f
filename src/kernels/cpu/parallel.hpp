#pragma once

#include <algorithm>

#include "unisono/tensor/allocator.hpp"

#ifdef _OPENMP
#include <omp.h>
#endif

namespace unisono::kernels::cpu {

/// Calls work(first, last, thread) once per thread, on consecutive parts of [0, count) of about equal size. What is
/// computed for an index must not depend on the part that it is in. `work` must not throw.
template <typename Work>
void parallel_ranges([[maybe_unused]] int threads, Index count, const Work& work) {
#ifdef _OPENMP
  const Index parts = std::clamp<Index>(count, 1, threads);
  if (parts > 1) {
#pragma omp parallel num_threads(static_cast <int>(parts))
    {
      // The runtime may give fewer threads than asked for.
      const Index team = omp_get_num_threads();
      const int part = omp_get_thread_num();
      work(count * part / team, count * (part + 1) / team, part);
    }
    return;
  }
#endif
  work(Index{0}, count, 0);
}

/// Calls work(i) for every i in [0, count), in no particular order.
template <typename Work>
void parallel_for(int threads, Index count, const Work& work) {
  parallel_ranges(threads, count, [&work](Index first, Index last, int) {
    for (Index i = first; i < last; ++i) work(i);
  });
}

}  // namespace unisono::kernels::cpu
