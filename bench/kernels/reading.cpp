// Reading memory and doing as little else as a program can: the bound of what reads each weight once.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "cpu/loop_team.hpp"
#include "unisono/tensor/allocator.hpp"

namespace unisono::bench {
namespace {

constexpr Index kFloats = Index{1} << 27;  ///< 512 MiB: no cache holds a part of them worth mentioning
constexpr Index kChunk = Index{1} << 20;   ///< floats
constexpr Index kStreams = 4;              ///< places of a chunk that are read at the same time: faster than one

using Words [[gnu::vector_size(64), gnu::may_alias, gnu::aligned(4)]] = std::uint64_t;
constexpr Index kWords = sizeof(Words) / sizeof(float);

/// The exclusive or of a chunk.
__attribute__((target_clones("avx512f", "avx2", "default"))) std::uint64_t combine(const float* chunk) {
  Words sums[kStreams][2] = {};
  for (Index i = 0; i < kChunk / kStreams; i += 2 * kWords) {
#pragma GCC unroll 4
    for (Index stream = 0; stream < kStreams; ++stream) {
      const auto* words = reinterpret_cast<const Words*>(chunk + stream * (kChunk / kStreams) + i);
      sums[stream][0] ^= words[0];
      sums[stream][1] ^= words[1];
    }
  }
  Words sum{};
  for (const auto& stream : sums) sum ^= stream[0] ^ stream[1];
  std::uint64_t all = 0;
  for (Index i = 0; i < kWords / 2; ++i) all ^= sum[i];
  return all;
}

void read(benchmark::State& state, int threads) {
  Buffer memory(kFloats);
  kernels::cpu::LoopTeam::of_this_thread().grow(threads);
  std::ranges::fill(memory.view(), 1.0F);
  std::vector<std::uint64_t> found(kFloats / kChunk);
  for (auto _ : state) {
    kernels::cpu::parallel_for(threads, kFloats / kChunk, [&](Index chunk) {
      found[static_cast<std::size_t>(chunk)] = combine(memory.data() + chunk * kChunk);
    });
    benchmark::DoNotOptimize(found.data());
    benchmark::ClobberMemory();
  }
  const double bytes = sizeof(float) * static_cast<double>(kFloats * state.iterations());
  state.counters["GB/s"] = benchmark::Counter(bytes / 1e9, benchmark::Counter::kIsRate);
}

const bool registered = [] {
  for (int threads = 1; threads <= static_cast<int>(std::thread::hardware_concurrency()); ++threads) {
    const std::string name = "read/threads:" + std::to_string(threads);
    benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) { read(state, threads); })->UseRealTime();
  }
  return true;
}();

}  // namespace
}  // namespace unisono::bench
