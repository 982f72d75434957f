#include <algorithm>
#include <cassert>
#include <numeric>

#include "cpu/chunks.hpp"
#include "cpu/cpu_backend.hpp"

namespace unisono::kernels::cpu {
namespace {

View part(View x, const UpdateRange& range) {
  return x.subspan(static_cast<std::size_t>(range.first), static_cast<std::size_t>(range.last - range.first));
}

}  // namespace

void CpuBackend::clear(MutableView x) {
  parallel_chunks(settings_.threads, static_cast<Index>(x.size()),
                  [&](Index first, Index length) { std::fill_n(x.data() + first, length, 0.0F); });
}

double CpuBackend::dot(View x, View y) {
  assert(x.size() == y.size());
  const auto size = static_cast<Index>(x.size());
  double* sums = partials_.doubles(chunks_of(size));
  parallel_chunks(settings_.threads, size, [&](Index first, Index length) {
    sums[first / kChunk] = loops_.algebra.dot(x.data() + first, y.data() + first, length);
  });
  return std::accumulate(sums, sums + chunks_of(size), 0.0);
}

double CpuBackend::sum_of_squares(View x) {
  return sum_of_chunks(
      settings_.threads, static_cast<Index>(x.size()), partials_,
      [&](Index first, Index length, double* sum) { loops_.algebra.squared_norm(x.data() + first, length, sum); });
}

double CpuBackend::squared_norm(View x) {
  if (const auto value = ExactSquares::settled_value(sum_of_squares(x))) return *value;
  ExactSquares exact;
  exact.add(x);
  return exact.value();
}

void CpuBackend::squared_norms(View x, std::span<const UpdateRange> ranges, std::span<double> norms) {
  assert(norms.size() == ranges.size());
  for (std::size_t i = 0; i < ranges.size(); ++i) norms[i] = squared_norm(part(x, ranges[i]));
}

void CpuBackend::sum_squares(View x, std::span<const UpdateRange> ranges, bool exactly, std::span<ExactSquares> sums) {
  assert(sums.size() == ranges.size());
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const View own = part(x, ranges[i]);
    if (exactly) {
      sums[i].add(own);
    } else {
      sums[i].add_sum(sum_of_squares(own));
    }
  }
}

void CpuBackend::axpby(float a, View x, float b, MutableView y) {
  assert(x.size() == y.size());
  parallel_chunks(settings_.threads, static_cast<Index>(x.size()), [&](Index first, Index length) {
    loops_.algebra.axpby(a, x.data() + first, b, y.data() + first, length);
  });
}

}  // namespace unisono::kernels::cpu
