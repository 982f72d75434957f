// The peak speeds of the cores and of their memory, with which all other speeds are compared (roofline: Williams,
// Waterman, Patterson, "Roofline: an insightful visual performance model for multicore architectures", CACM 2009).
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "cpu/cpu_backend.hpp"
#include "unisono/base/clock.hpp"

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

/// The best rate of three rounds or more, which together take `seconds` or more. \param round does the same each time,
/// on all threads, and returns how many bytes it moved
template <typename Round>
double best_bandwidth(double seconds, const Round& round) {
  double best = 0;
  const Stopwatch all;
  for (int i = 0; i < 3 || all.seconds() < seconds; ++i) {
    const Stopwatch watch;
    const double bytes = round();
    best = std::max(best, bytes / watch.seconds());
  }
  return best;
}

/// The first word of a file of the system; empty: there is no such file.
std::string word_in(const std::string& path) {
  std::string word;
  std::ifstream(path) >> word;
  return word;
}

/// How many CPUs a list such as "0-3,8-11" has.
int cpus_in(const std::string& list) {
  int count = 0;
  std::istringstream ranges(list);
  for (std::string range; std::getline(ranges, range, ',');) {
    const std::size_t dash = range.find('-');
    count += dash == std::string::npos ? 1 : std::stoi(range.substr(dash + 1)) - std::stoi(range) + 1;
  }
  return std::max(1, count);
}

/// The levels of `threads` cores, without their speeds. Nothing but memory where the system does not say.
std::vector<MemoryLevel> levels_of(int threads) {
  std::vector<MemoryLevel> levels;
  for (int index = 0;; ++index) {
    const std::string folder =
        fmt::format("/sys/devices/system/cpu/cpu{}/cache/index{}/", std::max(0, sched_getcpu()), index);
    const std::string size = word_in(folder + "size"), level = word_in(folder + "level");
    if (size.empty() || level.empty()) break;
    if (word_in(folder + "type") == "Instruction") continue;
    // L1 and L2 are each core's own, even where a core counts as several CPUs. An L3 is of several cores.
    const int sharing = level == "1" || level == "2" ? 1 : cpus_in(word_in(folder + "shared_cpu_list"));
    const double caches = (threads + sharing - 1) / sharing;  // NOLINT(bugprone-integer-division): rounded up
    levels.push_back({.name = "L" + level, .capacity = caches * 1024 * std::stod(size), .read = 0, .write = 0});
  }
  levels.push_back({.name = "memory", .capacity = std::numeric_limits<double>::infinity(), .read = 0, .write = 0});
  return levels;
}

/// The bytes to measure a level with: more than the level before holds, and far less than this one, which other
/// programs may use, too. \param before capacity of the level before; 0: there is none
double bytes_to_measure(const MemoryLevel& level, double before) {
  constexpr double kLeast = 1 << 28, kMost = 1 << 30;
  if (std::isinf(level.capacity)) return std::clamp(4 * before, kLeast, kMost);
  const double middle = (before + level.capacity) / 2;
  return before == 0 ? middle : std::min(3 * before, middle);
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
  return best_bandwidth(kSeconds, [&] {  // whole vectors: a part could fit a cache
    parallel_for(settings_.threads, settings_.threads, [&](Index thread) {
      const Index first = thread * kFloats;
      loops_.triad(kFloats, a.data() + first, b.data() + first, c.data() + first);
    });
    return static_cast<double>(size) * 3 * sizeof(float);
  });
}

std::vector<MemoryLevel> CpuBackend::measure_memory_levels() {
  constexpr double kSecondsOfLevel = 0.05;
  const int threads = settings_.threads;
  std::vector<MemoryLevel> levels = levels_of(threads);
  double before = 0;
  for (MemoryLevel& level : levels) {
    const auto floats = static_cast<Index>(bytes_to_measure(level, before) / sizeof(float) / threads) / 64 * 64;
    Buffer values(floats * threads);
    std::vector<float> sums(static_cast<std::size_t>(threads));
    // Many passes at a time over little memory, so that the threads' start does not count.
    const Index passes = std::max<Index>(1, (Index{1} << 20) / floats);
    const auto rate = [&](const auto& pass) {
      return best_bandwidth(kSecondsOfLevel, [&] {
        parallel_for(threads, threads, [&](Index thread) {
          float* const own = values.data() + thread * floats;
          for (Index i = 0; i < passes; ++i) pass(thread, own);
        });
        return static_cast<double>(floats * threads * passes) * sizeof(float);
      });
    };
    level.write = rate([&](Index, float* own) { loops_.store_all(floats, 1, std::isinf(level.capacity), own); });
    level.read =
        rate([&](Index thread, float* own) { loops_.load_all(floats, own, &sums[static_cast<std::size_t>(thread)]); });
    before = level.capacity;
  }
  return levels;
}

}  // namespace unisono::kernels::cpu
