#include "cpu/cpu_backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <vector>

#include "cpu/thread_team.hpp"
#include "unisono/base/clock.hpp"

namespace unisono::kernels {

namespace cpu {

CpuBackend::CpuBackend(const CpuSettings& settings)
    : settings_(settings),
      loops_(loops_for(settings.instruction_set)),
      narrow_loops_(narrow_loops_for(settings.instruction_set)) {
  assert(settings.threads >= 1);
}
CpuBackend::~CpuBackend() = default;

std::string CpuBackend::description() const {
  return fmt::format("CPU, {}, {} thread{}", loops_.name, settings_.threads, settings_.threads == 1 ? "" : "s");
}

int CpuBackend::threads() const { return settings_.threads; }

Index CpuBackend::scratch_size() const {
  return packed_.size() + partials_.size() + x_copy_.size() + y_copy_.size() + dx_copy_.size();
}

}  // namespace cpu

std::unique_ptr<Backend> make_cpu_backend(int threads) {
  cpu::ThreadTeam::of_this_thread().grow(threads);
  return std::make_unique<cpu::CpuBackend>(cpu::CpuSettings{.threads = threads});
}

bool threads_lacked_cores() { return cpu::TeamSize::was_reduced(); }

std::string cpu_instruction_set() { return cpu::loops_for(cpu::chosen_instruction_set()).name; }

}  // namespace unisono::kernels

namespace unisono::kernels::cpu {
namespace {

constexpr double kSeconds = 0.2;  ///< of each measurement
constexpr int kRounds = 8;        ///< the best counts: other programs only ever slow a round down

/// The best rate of rounds that each take about kSeconds / kRounds. \param round runs n units on all threads and
/// returns how much work (flops, bytes) they were
template <typename Round>
double best_rate(const Round& round) {
  Index units = 1;
  for (Stopwatch watch; watch.seconds() < kSeconds / kRounds / 4; units *= 2) {
    watch.restart();
    round(units);
    if (watch.seconds() >= kSeconds / kRounds / 4) break;
  }
  double best = 0;
  for (int i = 0; i < kRounds; ++i) {
    const Stopwatch watch;
    const double amount = round(4 * units);
    best = std::max(best, amount / watch.seconds());
  }
  return best;
}

}  // namespace

double CpuBackend::measure_peak_flops_per_second() {
  return best_rate([this](Index units) {
    std::vector<double> flops(static_cast<std::size_t>(settings_.threads));
    parallel_for(settings_.threads, settings_.threads, [&](Index thread) {
      float sink = 0;
      flops[static_cast<std::size_t>(thread)] = loops_.multiply_add(1000 * units, &sink);
    });
    double sum = 0;
    for (double part : flops) sum += part;
    return sum;
  });
}

double CpuBackend::measure_bandwidth_bytes_per_second() {
  constexpr Index kFloats = Index{1} << 23;  // of each vector a thread: 96 MiB in all, more than its share of a cache
  const Index size = kFloats * settings_.threads;
  Buffer a(size), b(size), c(size);
  double best = 0;
  const Stopwatch all;
  for (int round = 0; round < 3 || all.seconds() < kSeconds; ++round) {  // whole vectors: a part could fit a cache
    const Stopwatch watch;
    parallel_for(settings_.threads, settings_.threads, [&](Index thread) {
      const Index first = thread * kFloats;
      loops_.triad(kFloats, a.data() + first, b.data() + first, c.data() + first);
    });
    best = std::max(best, static_cast<double>(size) * 3 * sizeof(float) / watch.seconds());
  }
  return best;
}

}  // namespace unisono::kernels::cpu
