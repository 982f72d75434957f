#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/base/config.hpp"

namespace unisono::optim {

/// How the learning rate changes over the run. Formulas in src/optim/schedule.cpp.
enum class ScheduleKind { constant, step, linear, cosine, polynomial, exponential, wsd };

inline constexpr Named<ScheduleKind> kScheduleKinds[] = {
    {ScheduleKind::constant, "constant", "the base learning rate throughout"},
    {ScheduleKind::step, "step", "multiplied by factor at each milestone"},
    {ScheduleKind::linear, "linear", "decreases linearly to final_factor"},
    {ScheduleKind::cosine, "cosine", "decreases along half a cosine to final_factor"},
    {ScheduleKind::polynomial, "polynomial",
     "decreases to final_factor with a power of the remaining share of the run"},
    {ScheduleKind::exponential, "exponential", "decreases to final_factor by the same ratio at every step"},
    {ScheduleKind::wsd, "wsd",
     "warm-up, stable, decay (Hu et al. 2024): constant, and at the end decreases to final_factor"}};

/// The last part of `wsd`, as a function of the share x of its steps.
enum class FinalDecay { sqrt, linear, cosine };

inline constexpr Named<FinalDecay> kFinalDecays[] = {
    {FinalDecay::sqrt, "sqrt", "1 − √x, fast at first (Hägele et al. 2024)"},
    {FinalDecay::linear, "linear", "1 − x"},
    {FinalDecay::cosine, "cosine", "half a cosine"}};

inline constexpr std::int64_t kMostSteps = 1LL << 40;  ///< that a config may ask for

/// A length of training, in epochs or in steps.
struct Length {
  std::int64_t count = 0;
  bool in_steps = false;
  std::int64_t steps(std::int64_t steps_per_epoch) const { return in_steps ? count : count * steps_per_epoch; }
  /// The last word of its keys: "epochs", "steps".
  std::string_view unit() const { return in_steps ? "steps" : "epochs"; }
  /// "3 epochs", "2,000 steps"
  std::string text() const;
};

/// `[schedule]`
struct ScheduleSettings {
  ScheduleKind kind = ScheduleKind::constant;
  std::int64_t epochs = 0;        ///< length of schedules that decrease; 0: `steps`
  std::int64_t steps = 0;         ///< the same in steps; 0, and no epochs: the length of the run
  double warmup_epochs = 0;       ///< epochs in which the rate rises linearly to the base rate
  std::int64_t warmup_steps = 0;  ///< the same in steps; one of the two is 0
  double final_factor = 0;        ///< linear, cosine, polynomial, wsd: share of the base rate, reached at the last step
  double exponential_final_factor = 0.01;  ///< exponential: share of the base rate, reached at the last step; above 0
  std::vector<double> milestones{};        ///< step: epochs from which on the rate is multiplied by `factor`
  double factor = 0.1;                     ///< step: by which the rate is multiplied at each milestone
  double power = 2;                        ///< polynomial: the power
  double decay_fraction = 0.2;             ///< wsd: share of the schedule's steps in which the rate falls
  FinalDecay decay = FinalDecay::sqrt;     ///< wsd: how it falls
  /// No key: above 0, the rate is multiplied by this at each step, in place of all else (unisono find-rate).
  double growth = 0;
  void describe(ConfigVisitor& visitor);
  /// Whether the rate of a step depends on how long the schedule is.
  bool depends_on_length() const { return kind != ScheduleKind::constant && kind != ScheduleKind::step; }
  bool has_own_length() const { return epochs > 0 || steps > 0; }
  /// What the schedule spans, in a run of this length.
  Length span(const Length& run) const;
};

/// Checks that some step has the base learning rate, as far as epochs tell. \throws ConfigError where a milestone lies
/// in the warm-up, so that no step has it
void require_base_rate(const ScheduleSettings& settings);

/// Checks the same of lengths that are given in steps. \param run length of the run \throws ConfigError where the
/// warm-up is as long as the schedule, or a milestone lies in it
void require_base_rate(const ScheduleSettings& settings, const Length& run, std::int64_t steps_per_epoch);

/// The learning rate as a function of the step, for given settings, base rate and length of the schedule.
class Schedule {
 public:
  /// \param total_steps length of the schedule
  Schedule(const ScheduleSettings& settings, double base_rate, std::int64_t total_steps, std::int64_t steps_per_epoch);
  /// The learning rate of a step. \param step how many steps were made before it: 0 … total − 1; later steps keep the
  /// last step's rate
  double rate(std::int64_t step) const;

 private:
  double curve(std::int64_t step) const;
  double share_of_decay(std::int64_t step) const;  ///< `wsd`: 0 while the rate is stable, 1 at the last step

  ScheduleSettings settings_;
  double base_rate_;
  std::int64_t total_steps_, steps_per_epoch_, warmup_steps_;
};

}  // namespace unisono::optim
