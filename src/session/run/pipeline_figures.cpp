#include "unisono/session/pipeline_figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "unisono/parallel/pipeline.hpp"
#include "unisono/session/memory.hpp"

namespace unisono::session {

PipelineFigures pipeline_figures(const settings::Config& config, int replicas, const PipelineMeasurements& measured) {
  const int micro_batches = micro_batches_of_replica(config, replicas);
  const double passes = measured.seconds.bubble + measured.seconds.compute;
  return {.schedule = name_of(config.replica.schedule, parallel::kPipelineSchedules),
          .stages = config.replica.stages,
          .chunks = config.replica.chunks,
          .micro_batches = micro_batches,
          .bubble = measured.seconds.bubble / std::max(passes, 1e-9),
          .expected_bubble = parallel::expected_bubble(config.replica, micro_batches),
          .bytes_per_step =
              static_cast<double>(measured.boundary_bytes) / std::max(static_cast<double>(measured.steps), 1.0)};
}

nlohmann::ordered_json to_json(const PipelineFigures& figures) {
  return {{"schedule", figures.schedule},
          {"stages", figures.stages},
          {"chunks", figures.chunks},
          {"micro_batches", figures.micro_batches},
          {"bubble", figures.bubble},
          {"expected_bubble", figures.expected_bubble},
          {"boundary_bytes_per_step", figures.bytes_per_step}};
}

std::string to_text(const PipelineFigures& figures) {
  return fmt::format(
      "{}, micro-batches of a replica: {}; stages waited {:.1f} % of the time of their passes, {:.1f} % "
      "by the schedule; {:.3g} MB per step between stages",
      figures.schedule, figures.micro_batches, 100 * figures.bubble, 100 * figures.expected_bubble,
      1e-6 * figures.bytes_per_step);
}

}  // namespace unisono::session
