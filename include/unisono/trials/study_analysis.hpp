#pragma once

#include <string>
#include <utility>
#include <vector>

#include "unisono/records/statistics.hpp"
#include "unisono/trials/study_plan.hpp"

namespace unisono::trials {

/// What a study found about a variant. Means are over the seeds for which the variant did not diverge.
struct VariantResult {
  const Variant* variant = nullptr;
  std::int64_t trainings = 0, diverged = 0;
  std::int64_t undefined = 0;       ///< seeds for which the metric of this variant or of the serial run is undefined
  std::vector<double> values = {};  ///< values of the metric, seed by seed; NaN where it is undefined
  records::Judgement judgement = {};

  // Distances from the serial run of the same seed; for the serial run itself, from the serial run of the first seed.
  std::int64_t different = 0;  ///< parameters with other bits than the serial run's: the most of any seed
  double relative = kUnknown;  ///< mean of ModelDistance::relative
  double largest = kUnknown;   ///< the largest ModelDistance::largest of any seed
  double predictions = kUnknown, classes = kUnknown;  ///< means of ModelDistance::predictions and classes
  double loss_difference = kUnknown;                  ///< mean difference of the loss on the metric's examples
  double above_optimum = kUnknown;                    ///< mean of f(θ) − f*

  /// Means of the metric at StudyResult::updates, examples and seconds.
  double at_updates = kUnknown, at_examples = kUnknown, at_seconds = kUnknown;
  double to_target = kUnknown;  ///< seconds to the target: the median of the seeds that reach it
  std::int64_t reached = 0;     ///< seeds that reach the target
  double seconds = kUnknown;    ///< seconds of training: the median
  double speed_up = kUnknown, efficiency = kUnknown;
  Seconds parts = {};  ///< mean seconds of each kind
};

/// What a study found.
struct StudyResult {
  std::vector<VariantResult> variants;  ///< the serial run first
  double target = kUnknown;
  double optimum = kUnknown;  ///< f*
  /// The updates, examples and seconds at which variants are compared: all variants reach them.
  double updates = kUnknown, examples = kUnknown, seconds = kUnknown;
  /// The standard deviation of the differences between a variant and the serial run: the median over the variants that
  /// are tested.
  double deviation = kUnknown;
  /// Numbers of seeds, and the chance to find a difference of the margin with each.
  std::vector<std::pair<std::int64_t, double>> power;
};

/// Analyses a study. \param records the records of all trainings of the plan
StudyResult analyse(const StudyPlan& plan, const std::vector<StudyRecord>& records);

/// The value of a curve at x, linear between its points; its last value beyond them, and unknown before the first
/// point.
/// \param axis updates, examples or seconds
double value_at(const std::vector<CurvePoint>& curve, double CurvePoint::*axis, double x);
/// The seconds at which a curve first reaches the target; unknown where the curve does not reach it.
double seconds_to(const std::vector<CurvePoint>& curve, double target, bool larger_is_better);
/// Whether roundings alone may have made a distance after `steps` steps: one rounding to 24 bits of each parameter in
/// each step, all in the same direction, but never more than 1e-4.
bool is_rounding(const ModelDistance& distance, std::int64_t steps);

/// A study's result as JSON, for study.json.
nlohmann::ordered_json to_json(const StudyPlan& plan, const StudyResult& result,
                               const std::vector<StudyRecord>& records);
/// A study's result as Markdown, for study.md.
std::string to_markdown(const StudyPlan& plan, const StudyResult& result);
/// A study's result as text for the terminal.
std::string to_text(const StudyPlan& plan, const StudyResult& result);

}  // namespace unisono::trials
