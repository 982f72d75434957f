#pragma once

#include <nlohmann/json_fwd.hpp>

#include "unisono/base/counters.hpp"

namespace unisono::records {

/// The counters and figures that a file shows, in their groups; a histogram is {"mean", "largest", "counts"}.
/// \param file Shown::in_metrics or Shown::in_summary
nlohmann::ordered_json to_json(CounterSet counters, Shown file);

/// Their units by their paths: {"averaged_bytes": "bytes", "gossip.exchanges": ""}. It tells readers of summary.json
/// which of its members are counters.
nlohmann::ordered_json units_json(CounterSet counters, Shown file);

/// {"total": …, "compute": …, …}
nlohmann::ordered_json to_json(const Seconds& seconds);
/// The seconds that `to_json` has written. A part that an older version did not measure is 0.
/// \throws nlohmann::json::exception where a part is no number
Seconds seconds_from(const nlohmann::json& json);

}  // namespace unisono::records
