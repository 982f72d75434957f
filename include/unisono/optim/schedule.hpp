#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unisono/base/config.hpp"

namespace unisono {

struct ScheduleSettings {
  std::string kind = "constant";   ///< constant, step, linear, cosine, polynomial, exponential
  double final_factor = 0;         ///< of the base rate, reached at the last step
  std::vector<double> milestones;  ///< step: epochs at which the rate is multiplied by `factor`
  double factor = 0.1;
  double power = 2;
  double warmup_epochs = 0;  ///< linear from 0 to the base rate
  void describe(ConfigVisitor& visitor);
};

/// The learning rate as a function of the step: settings × base rate × length of the run.
class Schedule {
 public:
  Schedule(const ScheduleSettings& settings, double base_rate, std::int64_t total_steps, std::int64_t steps_per_epoch);
  /// \param step how many steps were made before this one
  double rate(std::int64_t step) const;

 private:
  ScheduleSettings settings_;
  double base_rate_;
  std::int64_t total_steps_, steps_per_epoch_;
};

}  // namespace unisono
