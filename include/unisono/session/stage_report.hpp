#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>

#include "unisono/models/factory.hpp"
#include "unisono/session/abilities.hpp"
#include "unisono/settings/config.hpp"

namespace unisono::session {

/// The stages of a placed model: layers, memory against the limits, and how a step goes.
class StageReport {
 public:
  StageReport(const StagePlan& plan, const PlacedModel& placed);

  /// The report as text: tables and the timeline.
  std::string text() const;
  nlohmann::ordered_json stages_json() const;  ///< a list of the stages
  nlohmann::ordered_json step_json() const;
  std::int64_t peak_memory_bytes() const;  ///< peak memory of the rank that needs most
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

/// How a pipeline did: the share of the passes' time that stages waited, and what stages sent each other.
struct PipelineFigures {
  std::string_view schedule;
  std::int64_t stages, chunks;
  int micro_batches;  ///< micro-batches of a replica in a step
  double bubble, expected_bubble;
  double bytes_per_step;
};

/// What was measured of all ranks of a pipeline in some steps.
struct PipelineMeasurements {
  Seconds seconds;
  std::int64_t boundary_bytes = 0;
  std::int64_t steps = 0;
};

/// The figures of a pipeline's measured steps. \pre replicas have several stages
PipelineFigures pipeline_figures(const settings::Config& config, int replicas, const PipelineMeasurements& measured);

nlohmann::ordered_json to_json(const PipelineFigures& figures);
/// The figures as text: "1f1b, micro-batches of a replica: 16; stages waited …".
std::string to_text(const PipelineFigures& figures);

/// A drawing (SVG) of how a step of a run's pipeline goes, as `unisono info --timeline` predicts it for the shapes of
/// the set in the run's newest checkpoint: the set itself may be gone. Not collective.
/// \param run the run's folder \param config the run's effective config \param ranks ranks of the run; 0: not known
/// \throws CheckpointError, ConfigError
std::string run_timeline(const std::string& run, const std::string& config, int ranks,
                         const models::ModelKinds& models);

/// The file of `info --timeline`: an SVG drawing.
struct TimelineFile {
  std::string path;
  bool overwrite = false;  ///< whether an earlier drawing may be replaced; nothing else ever is

  /// Checks that the drawing may and can be written to `path`. \throws ConfigError if not
  void require_writable() const;
  /// Writes the drawing. \throws OutputError
  void write(const std::string& svg) const;
};

}  // namespace unisono::session
