#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "checkpoint/stored_checkpoint.hpp"
#include "machine/parts.hpp"

// How far a run ends from another one, e.g. from the serial run of the same config.

namespace unisono::experiment {

/// Over the model's parameters θ, in canonical order; without sums that an update rule keeps beside them.
struct Comparison {
  std::string checkpoint;  ///< of the other run, whose parameters are θ'
  std::int64_t step = 0;
  std::int64_t different = 0;           ///< parameters whose bits are not the same
  double relative_distance = 0;         ///< ‖θ − θ'‖₂ / ‖θ'‖₂
  double largest_difference = 0;        ///< max |θ_i − θ'_i|
  nlohmann::ordered_json figures = {};  ///< of the other run's summary: those that are named like this run's
};

/// The newest whole checkpoint of a run, or the one that is named, if it is one of the same model. Collective.
/// \param own the folder of the run that will be compared
/// \throws CheckpointError, ConfigError
StoredCheckpoint find_compared(const ModelParts& parts, const std::string& path, const std::string& own, Log& log);

/// Every rank compares what it holds, or its share of what all hold; some MiB of the file at a time. Collective.
/// \return none, after a warning, where the file is no longer to be had
std::optional<Comparison> compare(ModelParts& parts, const StoredCheckpoint& other, Log& log);

nlohmann::ordered_json to_json(const Comparison& comparison);
/// "0.21 % of their norm away from the parameters of …"
std::string to_text(const Comparison& comparison);

}  // namespace unisono::experiment
