#pragma once

#include <optional>
#include <string>
#include <vector>

#include "unisono/base/log.hpp"
#include "unisono/records/confusion.hpp"
#include "unisono/trials/study_plan.hpp"

// What a study measures of trainings, from their folders. Always on the CPU and by one rank, so that models with the
// same bits give the same figures however they were trained. Nothing here is collective.

namespace unisono::jobs {

/// By what a study compares. \param wanted StudySettings::metric \throws ConfigError for a metric that the model or the
/// set does not have; DataError where there is no set
trials::StudyMetric metric_of(const settings::Config& config, const std::string& wanted);

/// A trained model, for comparisons.
struct MeasuredModel {
  std::vector<float> parameters;   ///< θ, without the sums that some update rules keep in it
  std::vector<float> predictions;  ///< [n, outputs] for the first 10,000 examples; empty for models of words
  Index outputs = 1;
  std::optional<records::ClassReading> classes = {};  ///< how to read a class from the outputs
  double value = trials::kUnknown, loss = trials::kUnknown, objective = trials::kUnknown;  ///< see StudyRecord
  std::int64_t train = 0;                                                                  ///< training examples
};

/// \param serial for the objective, which is the serial run's; null: it is not wanted
MeasuredModel measure(const std::string& run, const trials::StudyMetric& metric, const trials::Variant* serial,
                      Log& log);

/// Unknown for models of different shapes.
trials::ModelDistance distance_between(const MeasuredModel& model, const MeasuredModel& other);

/// The seconds of a run, and the metric during it, from its metrics.jsonl.
struct MeasuredCourse {
  Seconds seconds;
  std::vector<trials::CurvePoint> curve;
};
/// \param examples_per_step of training
MeasuredCourse course_of(const std::string& run, const trials::StudyMetric& metric, double examples_per_step);

}  // namespace unisono::jobs
