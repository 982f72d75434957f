#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unisono/base/config.hpp"
#include "unisono/base/random.hpp"

namespace unisono::parallel {

/// `[fault]`: makes ranks slow on purpose, to study stragglers.
struct FaultSettings {
  std::int64_t slow_rank = -1;  ///< the rank that is slowed down; −1: none
  double slow_factor = 1;       ///< the slow rank takes this many times its CPU time
  double pause_seconds = 0;     ///< the slow rank's mean pause after each (micro-)batch
  double emulated_seconds = 0;  ///< every rank sleeps this long after each (micro-)batch, to emulate computation
  /// Speeds in GFLOP/s, one for each rank or one for all: a rank that is faster sleeps for the rest of a pass's time.
  std::vector<double> emulated_gflops = {};
  void describe(ConfigVisitor& visitor);
  bool is_on() const { return slow_rank >= 0 || emulated_seconds > 0 || !emulated_gflops.empty(); }
  /// A warning for the log: "SLOW ON PURPOSE ([fault]): …"
  std::string text() const;
};

/// Makes this rank as slow as the settings say, by sleeping.
class Fault {
 public:
  Fault(const FaultSettings& settings, std::uint64_t seed, int rank);
  /// What a pass took.
  struct Work {
    double cpu_seconds = 0;  ///< CPU time of the calling thread
    double seconds = 0;
    double flops = 0;  ///< 0: unknown
  };
  /// Called after each (micro-)batch, and in a pipeline after each pass: sleeps for as long as the settings ask.
  void after(const Work& work);

 private:
  double factor_, pause_seconds_, emulated_seconds_;
  double flops_per_second_;  ///< 0: not emulated
  RandomStream random_;
};

}  // namespace unisono::parallel
