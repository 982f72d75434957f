// The formulas and papers are in loops_isa/updates.cpp.
#include <cassert>
#include <numeric>

#include "cpu/chunks.hpp"
#include "cpu/cpu_backend.hpp"

namespace unisono::cpu {

void CpuBackend::sgd_update(const SgdStep& step, View g, MutableView theta, MutableView velocity) {
  assert(g.size() == theta.size() && (velocity.empty() || velocity.size() == g.size()));
  parallel_chunks(settings_.threads, static_cast<Index>(g.size()), [&](Index first, Index length) {
    if (velocity.empty()) {
      loops_.updates.sgd(step, g.data() + first, theta.data() + first, length);
    } else {
      loops_.updates.momentum(step, g.data() + first, theta.data() + first, velocity.data() + first, length);
    }
  });
}

void CpuBackend::adagrad_update(const AdagradStep& step, View g, MutableView theta, MutableView accumulator) {
  assert(g.size() == theta.size() && g.size() == accumulator.size());
  parallel_chunks(settings_.threads, static_cast<Index>(g.size()), [&](Index first, Index length) {
    loops_.updates.adagrad(step, g.data() + first, theta.data() + first, accumulator.data() + first, length);
  });
}

void CpuBackend::rmsprop_update(const RmspropStep& step, View g, MutableView theta, MutableView mean_square) {
  assert(g.size() == theta.size() && g.size() == mean_square.size());
  parallel_chunks(settings_.threads, static_cast<Index>(g.size()), [&](Index first, Index length) {
    loops_.updates.rmsprop(step, g.data() + first, theta.data() + first, mean_square.data() + first, length);
  });
}

void CpuBackend::adam_update(const AdamStep& step, View g, MutableView theta, MutableView first_moment,
                             MutableView second_moment) {
  assert(g.size() == theta.size() && g.size() == first_moment.size() && g.size() == second_moment.size());
  parallel_chunks(settings_.threads, static_cast<Index>(g.size()), [&](Index first, Index length) {
    loops_.updates.adam(step, g.data() + first, theta.data() + first, first_moment.data() + first,
                        second_moment.data() + first, length);
  });
}

double CpuBackend::lamb_moments(const AdamStep& step, View g, View theta, MutableView first_moment,
                                MutableView second_moment) {
  assert(g.size() == theta.size() && g.size() == first_moment.size() && g.size() == second_moment.size());
  const auto size = static_cast<Index>(g.size());
  double* sums = partials_.doubles(chunks_of(size));
  parallel_chunks(settings_.threads, size, [&](Index first, Index length) {
    sums[first / kChunk] =
        loops_.updates.lamb_moments(step, g.data() + first, theta.data() + first, first_moment.data() + first,
                                    second_moment.data() + first, length);
  });
  return std::accumulate(sums, sums + chunks_of(size), 0.0);
}

void CpuBackend::lamb_apply(const AdamStep& step, float ratio, MutableView theta, View first_moment,
                            View second_moment) {
  assert(theta.size() == first_moment.size() && theta.size() == second_moment.size());
  parallel_chunks(settings_.threads, static_cast<Index>(theta.size()), [&](Index first, Index length) {
    loops_.updates.lamb_apply(step, ratio, theta.data() + first, first_moment.data() + first,
                              second_moment.data() + first, length);
  });
}

}  // namespace unisono::cpu
