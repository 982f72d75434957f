#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "unisono/session/model_parts.hpp"
#include "unisono/session/stored_checkpoint.hpp"

// The distance between the final parameters of two runs, e.g. of a parallel and a serial run of the same config.

namespace unisono::session {

/// Compares the model's parameters θ, in canonical order, without the sums that some update rules keep in θ.
struct Comparison {
  std::string checkpoint;  ///< of the other run; its parameters are θ'
  std::int64_t step = 0;
  std::int64_t different = 0;           ///< number of parameters with different bits
  double relative_distance = 0;         ///< ‖θ − θ'‖₂ / ‖θ'‖₂
  double largest_difference = 0;        ///< max |θ_i − θ'_i|
  nlohmann::ordered_json figures = {};  ///< metrics from the other run's summary, to be shown next to this run's
};

/// Finds the checkpoint to compare with: the newest undamaged one of a run, or a named one. It must be of the same
/// model. Collective.
/// \param own the folder of the run that will be compared
/// \throws CheckpointError, ConfigError
StoredCheckpoint find_compared(const ModelParts& parts, const std::string& path, const std::string& own, Log& log);

/// Each rank compares what it holds, or its share of what all hold, reading some MiB of the file at a time. Collective.
/// \return nothing, after a warning, if the file has disappeared
std::optional<Comparison> compare(ModelParts& parts, const StoredCheckpoint& other, Log& log);

/// For summary.json.
nlohmann::ordered_json to_json(const Comparison& comparison);
/// "0.21 % of their norm away from the parameters of …"
std::string to_text(const Comparison& comparison);

}  // namespace unisono::session
