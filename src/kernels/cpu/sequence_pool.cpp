// One row for each sequence. The rows of a sequence are neighbouring lanes, also across blocks; the results of
// sequences are lanes, too.
#include <algorithm>
#include <vector>

#include "cpu/cpu_backend.hpp"
#include "cpu/lanes.hpp"
#include "cpu/loop_team.hpp"

namespace unisono::kernels::cpu {
namespace {

constexpr Index kUnits = 16;  ///< of a task

/// Where the values of a row begin, and how far apart they are.
struct RowPlace {
  Index first;
  Index step;
};

RowPlace place_of(const Lanes& lanes, Index units, Index row) {
  return {row / lanes.width * units * lanes.width + row % lanes.width, lanes.width};
}

Index length_of(const SequencePoolSpec& spec, std::span<const std::int32_t> lengths, Index sequence) {
  return lengths.empty() ? spec.rows : lengths[static_cast<std::size_t>(sequence)];
}

/// x[first] + … + x[last − 1], all of one unit.
float sum_of_rows(const Lanes& lanes, const SequencePoolSpec& spec, const float* x, Index first, Index last) {
  float sum = 0;
  for (Index row = first; row < last;) {
    const Index end = std::min(last, (row / lanes.width + 1) * lanes.width);
    const float* const from = x + place_of(lanes, spec.units, row).first;
    for (Index i = 0; i < end - row; ++i) sum += from[i];
    row = end;
  }
  return sum;
}

}  // namespace

void CpuBackend::sequence_pool_forward(const SequencePoolSpec& spec, Index batch, View x,
                                       std::span<const std::int32_t> lengths, MutableView y) {
  const Lanes rows(batch * spec.rows), results(batch);
  const Index units = spec.units;
  if (batch < results.blocks * results.width) std::ranges::fill(y, 0.0F);  // lanes without a sequence
  parallel_for(settings_.threads, (units + kUnits - 1) / kUnits, [&](Index task) {
    const Index last = std::min(units, (task + 1) * kUnits);
    for (Index b = 0; b < batch; ++b) {
      const Index begin = b * spec.rows, length = length_of(spec, lengths, b);
      const RowPlace from = place_of(rows, units, begin + length - 1), to = place_of(results, units, b);
      for (Index c = task * kUnits; c < last; ++c) {
        const bool takes_last = spec.kind == SequencePool::last;
        y.data()[to.first + c * to.step] =
            takes_last ? x.data()[from.first + c * from.step]
                       : sum_of_rows(rows, spec, x.data() + c * rows.width, begin, begin + length) /
                             static_cast<float>(length);
      }
    }
  });
}

void CpuBackend::sequence_pool_backward(const SequencePoolSpec& spec, Index batch,
                                        std::span<const std::int32_t> lengths, View dy, MutableView dx) {
  const Lanes rows(batch * spec.rows), results(batch);
  const Index units = spec.units;
  parallel_for(settings_.threads, rows.blocks, [&](Index block) {
    const Index used = rows.used(block);
    float* const to = dx.data() + block * units * rows.width;
    std::fill_n(to, units * rows.width, 0.0F);
    for (Index lane = 0; lane < used; ++lane) {
      const Index row = block * rows.width + lane, b = row / spec.rows, t = row % spec.rows;
      const Index length = length_of(spec, lengths, b);
      const bool is_last = spec.kind == SequencePool::last;
      if (t >= length || (is_last && t + 1 < length)) continue;
      const RowPlace from = place_of(results, units, b);
      const float parts = is_last ? 1.0F : static_cast<float>(length);
      for (Index c = 0; c < units; ++c) to[c * rows.width + lane] = dy.data()[from.first + c * from.step] / parts;
    }
  });
}

}  // namespace unisono::kernels::cpu
