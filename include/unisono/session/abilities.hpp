#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "unisono/base/log.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/session/placement.hpp"
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

/// The ranks that a config speaks of, where fewer are there: `unisono info` needs not be started on all of them.
int ranks_of(const settings::Config& config, int started);

/// What the ranks can do: as the config says, else as each finds. Collective.
/// \param ranks of the run; those beyond the group's are taken to be like the group's weakest
/// \throws ConfigError where the config's lists have other lengths
RankAbilities abilities_of(comm::Communicator& group, const settings::Config& config, const models::Model& model,
                           kernels::Backend& backend, int ranks);

/// \throws ConfigError where the placement cannot choose for such a model, device or strategy
void require_placeable(const settings::Config& config, const models::Model& model, kernels::Backend& backend);

/// \throws ConfigError where the stages cannot be what the config says, on so many ranks
void require_stages(const settings::Config& config, const models::Model& model, kernels::Backend& backend, int ranks);

/// A config with what was left to the placement, and the ranks in the order of the places that they take.
struct PlacedRanks {
  Settled settled;
  std::unique_ptr<comm::Communicator> reordered;  ///< null: the ranks keep their order
  comm::Communicator& group;                      ///< the ranks in their new order
  int given_rank;                                 ///< this rank in the old one: that of which the config speaks
};

/// Fills in what the config leaves to the placement. Does nothing where each rank holds the whole model and nothing is
/// left open. Collective. \throws ConfigError where the model does not fit into the ranks' memory
/// \param inspect says what the examples are like; called only where it matters
PlacedRanks place_ranks(comm::Communicator& group, const NodePlace& place, Settled asked,
                        const std::function<data::DatasetInfo()>& inspect, Log& log);

}  // namespace unisono::session
