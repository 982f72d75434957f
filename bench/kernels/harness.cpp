#include "harness.hpp"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <memory>
#include <thread>

#include "cpu/instruction_set.hpp"

namespace unisono::bench {
namespace {

/// What one core reaches by its own clock, which other programs on it do not disturb: the best of ten rounds of `work`,
/// which returns its amount.
template <typename Work>
double rate_of_one_core(const Work& work) {
  double best = 0;
  for (int round = 0; round < 10; ++round) {
    const std::clock_t start = std::clock();
    const double amount = work();
    best = std::max(best, amount * CLOCKS_PER_SEC / static_cast<double>(std::clock() - start));
  }
  return best;
}

double triad_of_one_core(const kernels::cpu::Loops& loops) {
  constexpr Index kFloats = Index{1} << 23;
  Buffer a(kFloats), b(kFloats), c(kFloats);
  return rate_of_one_core([&] {
    loops.triad(kFloats, a.data(), b.data(), c.data());
    return 3.0 * sizeof(float) * kFloats;
  });
}

double peak_of_one_core(const kernels::cpu::Loops& loops) {
  float sink = 0;
  return rate_of_one_core([&] { return loops.multiply_add(1 << 20, &sink); });
}

/// What the triad and the multiply-adds of so many threads reach.
struct Limits {
  double triad = 0, peak = 0;
};

Limits measure_limits(int threads) {
  if (threads == 1) {
    const kernels::cpu::Loops loops = kernels::cpu::loops_for(kernels::cpu::available_instruction_sets().back());
    return {triad_of_one_core(loops), peak_of_one_core(loops)};
  }
  const auto backend = kernels::make_cpu_backend(threads);
  return {backend->measure_bandwidth_bytes_per_second(), backend->measure_peak_flops_per_second()};
}

const Limits& limits(int threads) {
  static std::map<int, Limits> known;
  const auto found = known.find(threads);
  return found != known.end() ? found->second : known.emplace(threads, measure_limits(threads)).first->second;
}

/// One core is timed by its own clock, several by the wall's.
void by_its_clock(benchmark::internal::Benchmark* entry, int threads) {
  if (threads > 1) entry->UseRealTime();
}

}  // namespace

void report(benchmark::State& state, Work work, int threads) {
  const double amount = work.amount * static_cast<double>(state.iterations());
  const bool flops = work.unit == Work::Unit::flops;
  const double limit = flops ? limits(threads).peak : limits(threads).triad;
  state.counters[flops ? "GFLOP/s" : "GB/s"] = benchmark::Counter(amount / 1e9, benchmark::Counter::kIsRate);
  state.counters[flops ? "of_peak" : "of_triad"] = benchmark::Counter(amount / limit, benchmark::Counter::kIsRate);
}

Vectors::Vectors(const std::vector<Index>& sizes) {
  float value = 0.1F;
  for (const Index size : sizes) {
    buffers_.emplace_back(size);
    for (float& x : buffers_.back().view()) x = value = std::fmod(value * 1.7F + 0.31F, 1.0F) + 1e-3F;
  }
}

void add(const std::string& name, const std::vector<Index>& sizes, Work work, const Kernel& kernel,
         const Plain& plain) {
  std::vector<int> counts{1};
  if (const int all = static_cast<int>(std::thread::hardware_concurrency()); all > 1) counts.push_back(all);
  for (const int threads : counts) {
    const std::string full_name = name + "/threads:" + std::to_string(threads);
    const auto entry = benchmark::RegisterBenchmark(full_name.c_str(), [=](benchmark::State& state) {
      Vectors data(sizes);
      const auto backend = kernels::make_cpu_backend(threads);
      kernel(*backend, data);  // lets it allocate its scratch
      for (auto _ : state) kernel(*backend, data);
      report(state, work, threads);
      state.counters["scratch_floats"] = static_cast<double>(backend->scratch_size());
    });
    by_its_clock(entry, threads);
  }
  if (!plain) return;
  benchmark::RegisterBenchmark((name + "/plain").c_str(), [=](benchmark::State& state) {
    Vectors data(sizes);
    for (auto _ : state) {
      plain(data);
      benchmark::ClobberMemory();
    }
    report(state, work, 1);
  });
}

}  // namespace unisono::bench
