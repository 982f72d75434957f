#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "unisono/strategies/strategy.hpp"
#include "unisono/trials/variants.hpp"

namespace unisono::trials {

/// What is not known is not a number; in JSON it is null.
inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// A value of the study's metric during a training.
struct CurvePoint {
  double updates = 0, examples = 0;
  double seconds = 0;  ///< of training, without evaluations and checkpoints
  double value = 0;
};

/// How far a trained model is from another one: from the serial run of the same seed, or a serial run from that of the
/// first seed.
struct ModelDistance {
  bool known = false;             ///< false: there is no other one, or it is of another shape
  std::int64_t different = 0;     ///< parameters with different bits
  double relative = kUnknown;     ///< ‖θ − θ'‖ / ‖θ'‖
  double largest = kUnknown;      ///< max |θ_i − θ'_i|
  double predictions = kUnknown;  ///< root mean square of the outputs' differences
  double classes = kUnknown;      ///< share of examples whose predicted class differs
};

/// What a study keeps of a training.
struct StudyRecord {
  std::string variant;  ///< Variant::identity
  std::int64_t seed = 0;
  bool diverged = false;  ///< then the rest is unknown, but for the message
  std::string message = {};
  double value = kUnknown;      ///< the study's metric of the trained model
  double loss = kUnknown;       ///< on the same examples
  double objective = kUnknown;  ///< f(θ) on the training set, where the minimum is sought
  std::int64_t steps = 0;
  double examples = 0;
  Seconds seconds = {};  ///< means over ranks that train
  std::vector<CurvePoint> curve = {};
  ModelDistance distance = {};

  /// Of training, without evaluations and checkpoints.
  double training_seconds() const { return seconds.sum() - seconds.evaluation - seconds.checkpoint; }
};

nlohmann::json to_json(const StudyRecord& record);
/// \throws nlohmann::json::exception for what `to_json` did not make
StudyRecord study_record_from(const nlohmann::json& json);

}  // namespace unisono::trials
