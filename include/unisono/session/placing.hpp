#pragma once

#include <string>
#include <vector>

#include "unisono/session/settled.hpp"
#include "unisono/session/stage_plan.hpp"

namespace unisono::session {

/// How a model lies on the ranks, and the sizes of its steps.
struct PlacedModel {
  StepSizes sizes;
  parallel::Placement placement;
  parallel::PlacementProblem problem;  ///< that the placement solves
  bool fits() const { return !placement.lack(problem.limits); }
};

/// Chooses what the config leaves open: stages, micro-batches, recomputation, cuts, the order of the ranks, the size of
/// the batch. Where nothing is open it prices what the config says; cuts by flops that do not fit are replaced.
/// \return what lacks least, where nothing fits \throws ConfigError where the model cannot be cut as the config says
PlacedModel place_model(const StagePlan& plan, const settings::Config& config);

/// The config with what was chosen.
Settled chosen(const StagePlan& plan, Settled asked, const PlacedModel& placed);

/// Why the model fits into no placement: which stage lacks how much, and what would do.
std::string refusal(const StagePlan& plan, const settings::Config& config, const PlacedModel& placed);

/// "12.5 MiB"
std::string bytes_text(double bytes);

}  // namespace unisono::session
