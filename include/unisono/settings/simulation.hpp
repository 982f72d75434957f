#pragma once

#include <cstdint>
#include <string>

#include "unisono/base/config.hpp"

namespace unisono::settings {

/// How the lengths of a worker's steps vary from one to the next.
enum class StepTimes { constant, lognormal, pareto };

/// `[simulation]`: the ranks, hosts and network that `unisono simulate` simulates.
struct SimulationSettings {
  std::int64_t ranks = 0;  ///< 0: nothing is simulated
  std::int64_t ranks_per_host = 1;
  double microseconds_per_example = 0;  ///< of a rank of mean speed; 0: measured on this machine
  double nanoseconds_per_update = 1;    ///< of a parameter
  double speed_spread = 0;              ///< σ of the logarithm of the ranks' speeds
  double slow_share = 0, slow_factor = 1;
  StepTimes step_times = StepTimes::constant;
  double step_spread = 0.2;                   ///< lognormal: σ of the logarithm; pareto: 1/shape
  std::string gradient_times, message_times;  ///< files of recorded times, which are followed; empty: none
  double late_share = 0, late_seconds = 0;    ///< so many ranks begin later, by so much on average
  std::string start_times;                    ///< a file that says which ranks begin later; empty: none
  double link_mbit = 1000, link_microseconds = 50;
  double in_host_mbit = 80000, in_host_microseconds = 1;
  double sum_factor = 1;              ///< how many times as long sums over hosts take as their bytes on the links
  double hours_between_failures = 0;  ///< mean time between failures of any host; 0: none fails
  std::string failure_times;          ///< a file that says when hosts fail; empty: none
  std::int64_t spare_hosts = 0;       ///< which take the place of failed ones
  double repair_hours = 0;            ///< for which a failed host is missing
  double restart_seconds = 60;        ///< from a failure until the ranks train again
  double checkpoint_seconds = 0;      ///< for which ranks stand still for a checkpoint

  bool is_on() const { return ranks > 0; }
  bool has_failures() const { return hours_between_failures > 0 || !failure_times.empty(); }
  /// Whether the config says what an example takes, so that nothing has to be measured.
  bool has_speed() const { return microseconds_per_example > 0 || !gradient_times.empty(); }
  void describe(ConfigVisitor& visitor);
};

}  // namespace unisono::settings
