#pragma once

#include <algorithm>

#include "cpu/parallel.hpp"

namespace unisono::kernels::cpu {

/// Long vectors are worked on in chunks of so many floats. Sums are made of the chunks' sums, so that they do not
/// depend on the number of threads.
inline constexpr Index kChunk = Index{1} << 14;

inline Index chunks_of(Index size) { return (size + kChunk - 1) / kChunk; }

/// Calls work(first, length) for every chunk of a vector.
template <typename Work>
void parallel_chunks(int threads, Index size, const Work& work) {
  parallel_for(threads, chunks_of(size), [&](Index i) { work(i * kChunk, std::min(kChunk, size - i * kChunk)); });
}

}  // namespace unisono::kernels::cpu
