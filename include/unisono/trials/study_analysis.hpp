#pragma once

#include <string>
#include <utility>
#include <vector>

#include "unisono/records/statistics.hpp"
#include "unisono/trials/study_plan.hpp"

namespace unisono::trials {

/// What a study found about a variant. Means are over the seeds for which it did not diverge.
struct VariantResult {
  const Variant* variant = nullptr;
  std::int64_t trainings = 0, diverged = 0;
  std::int64_t undefined = 0;       ///< seeds for which the metric of this or of the serial run is
  std::vector<double> values = {};  ///< the metric, seed by seed; NaN where it is undefined
  records::Judgement judgement = {};

  // From the serial run of the same seed; the serial run itself from that of the first seed.
  std::int64_t different = 0;                         ///< parameters with other bits: the most of any seed
  double relative = kUnknown;                         ///< mean; see ModelDistance
  double largest = kUnknown;                          ///< the largest of any seed
  double predictions = kUnknown, classes = kUnknown;  ///< means
  double loss_difference = kUnknown;                  ///< mean, of the loss on the metric's examples
  double above_optimum = kUnknown;                    ///< mean of f(θ) − f*

  double at_updates = kUnknown, at_examples = kUnknown, at_seconds = kUnknown;  ///< means of the metric
  double to_target = kUnknown;  ///< seconds: the median of the seeds that reach it
  std::int64_t reached = 0;     ///< seeds that do
  double seconds = kUnknown;    ///< of training: the median
  double speed_up = kUnknown, efficiency = kUnknown;
  Seconds parts = {};  ///< means
};

struct StudyResult {
  std::vector<VariantResult> variants;  ///< the serial run first
  double target = kUnknown;
  double optimum = kUnknown;  ///< f*
  /// At which variants are compared: all reach them.
  double updates = kUnknown, examples = kUnknown, seconds = kUnknown;
  /// The deviation of the differences between a variant and the serial run: the median over the variants that are
  /// tested.
  double deviation = kUnknown;
  std::vector<std::pair<std::int64_t, double>> power;  ///< to find a difference of the margin, by the number of seeds
};

/// \param records of all trainings of the plan
StudyResult analyse(const StudyPlan& plan, const std::vector<StudyRecord>& records);

/// The value of a curve at x, linear between its points; its last value beyond them, and unknown before the first.
/// \param axis updates, examples or seconds
double value_at(const std::vector<CurvePoint>& curve, double CurvePoint::*axis, double x);
/// The seconds at which a curve first reaches the target; unknown where it does not.
double seconds_to(const std::vector<CurvePoint>& curve, double target, bool larger_is_better);
/// Whether roundings alone may have made a distance after so many steps: one rounding to 24 bits of each parameter in
/// each step, all in the same direction, but never more than 1e-4.
bool is_rounding(const ModelDistance& distance, std::int64_t steps);

/// For study.json.
nlohmann::ordered_json to_json(const StudyPlan& plan, const StudyResult& result,
                               const std::vector<StudyRecord>& records);
/// study.md.
std::string to_markdown(const StudyPlan& plan, const StudyResult& result);
/// What the terminal shows of it.
std::string to_text(const StudyPlan& plan, const StudyResult& result);

}  // namespace unisono::trials
