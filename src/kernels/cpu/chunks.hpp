#pragma once

#include <algorithm>

#include "cpu/thread_team.hpp"
#include "unisono/tensor/allocator.hpp"

namespace unisono::kernels::cpu {

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
