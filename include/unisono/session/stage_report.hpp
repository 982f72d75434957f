#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "unisono/session/abilities.hpp"

namespace unisono::session {

/// The stages of a placed model: layers, memory against the limits, and how a step goes.
class StageReport {
 public:
  StageReport(const StagePlan& plan, const PlacedModel& placed);

  /// Tables and the timeline.
  std::string text() const;
  nlohmann::ordered_json stages_json() const;  ///< a list
  nlohmann::ordered_json step_json() const;
  std::int64_t peak_memory_bytes() const;  ///< of the rank that needs most
  const std::string& svg() const { return forecast_.svg; }

 private:
  struct Stage {
    std::string layers;
    nn::PieceCost cost;
    int flights = 0, rank = 0;
    std::vector<MemoryItem> memory;
    double limit = 0, busy = 0;
    std::int64_t bytes_of(const std::vector<std::string>& kinds) const;
  };

  std::string memory_text() const;
  std::string step_text() const;

  PlacedModel placed_;
  int replicas_;
  parallel::Forecast forecast_;
  std::vector<Stage> stages_;
  bool assumes_speed_;
};

}  // namespace unisono::session
