#pragma once

#include <cstdint>
#include <string>

#include "unisono/base/config.hpp"
#include "unisono/base/random.hpp"

namespace unisono::strategies {

/// `[fault]`: makes ranks slow on purpose, to study stragglers.
struct FaultSettings {
  std::int64_t slow_rank = -1;  ///< the rank that is slowed down; −1: none
  double slow_factor = 1;       ///< the slow rank takes this many times its CPU time
  double pause_seconds = 0;     ///< the slow rank's mean pause after each (micro-)batch
  double emulated_seconds = 0;  ///< every rank sleeps this long after each (micro-)batch, to emulate computation
  void describe(ConfigVisitor& visitor);
  bool is_on() const { return slow_rank >= 0 || emulated_seconds > 0; }
  /// A warning for the log: "SLOW ON PURPOSE ([fault]): …"
  std::string text() const;
};

/// Makes this rank as slow as the settings say, by sleeping.
class Fault {
 public:
  Fault(const FaultSettings& settings, std::uint64_t seed, int rank);
  /// Called after each (micro-)batch: sleeps for as long as the settings ask.
  /// \param cpu_seconds CPU time that the calling thread spent on it
  void after(double cpu_seconds);

 private:
  double factor_, pause_seconds_, emulated_seconds_;
  RandomStream random_;
};

}  // namespace unisono::strategies
