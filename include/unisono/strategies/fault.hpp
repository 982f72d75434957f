#pragma once

#include <cstdint>
#include <string>

#include "unisono/base/config.hpp"
#include "unisono/base/random.hpp"

namespace unisono::strategies {

/// `[fault]`: what makes ranks slow on purpose.
struct FaultSettings {
  std::int64_t slow_rank = -1;  ///< −1: none
  double slow_factor = 1;       ///< of its CPU time
  double pause_seconds = 0;     ///< its mean pause after each part that it computes
  double emulated_seconds = 0;  ///< every rank, after each part: as if it had computed so long
  void describe(ConfigVisitor& visitor);
  bool is_on() const { return slow_rank >= 0 || emulated_seconds > 0; }
  /// "SLOW ON PURPOSE ([fault]): …"
  std::string text() const;
};

/// Makes this rank as slow as the settings say.
class Fault {
 public:
  Fault(const FaultSettings& settings, std::uint64_t seed, int rank);
  /// Sleeps, after a (micro-)batch that took a thread so much CPU time.
  void after(double cpu_seconds);

 private:
  double factor_, pause_seconds_, emulated_seconds_;
  RandomStream random_;
};

}  // namespace unisono::strategies
