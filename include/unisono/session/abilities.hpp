#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "unisono/base/log.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/kernels/cuda.hpp"
#include "unisono/session/placement.hpp"
#include "unisono/session/settled.hpp"
#include "unisono/session/stage_plan.hpp"
#include "unisono/settings/config.hpp"

namespace unisono::session {

/// How a model lies on the ranks, and the sizes of its steps.
struct PlacedModel {
  StepSizes sizes;
  parallel::Placement placement;
  parallel::PlacementProblem problem;  ///< the problem that the placement solves
  bool fits() const { return !placement.lack(problem.limits); }
};

/// Chooses what the config leaves open: stages, micro-batches, recomputation, cuts, the order of the ranks, the size of
/// the batch. Where nothing is open it simulates what the config says; cuts by flops that do not fit are replaced.
/// \return the placement that lacks least memory, where none fits \throws ConfigError where the model cannot be cut as
/// the config says
PlacedModel place_model(const StagePlan& plan, const settings::Config& config);

/// A config with what the placement chose.
Settled chosen(const StagePlan& plan, Settled asked, const PlacedModel& placed);

/// Why the model fits into no placement: which stage lacks how much, and what would do.
std::string refusal(const StagePlan& plan, const settings::Config& config, const PlacedModel& placed);

/// Bytes as text: "12.5 MiB".
std::string bytes_text(double bytes);

/// How many ranks a config speaks of, where fewer are started: `unisono info` needs not be started on all of them.
int ranks_of(const settings::Config& config, int started);

/// What the ranks can do: as the config says, else as each finds. Collective.
/// \param ranks ranks of the run; further ranks than the group's are taken to be like the group's weakest
/// \throws ConfigError where the config's lists have other lengths
RankAbilities abilities_of(comm::Communicator& group, const settings::Config& config, const models::Model& model,
                           kernels::Backend& backend, int ranks);

/// Checks that the placement can choose for the model, device and strategy. \throws ConfigError where it cannot
void require_placeable(const settings::Config& config, const models::Model& model, kernels::Backend& backend);

/// Checks that the stages can be what the config says, on `ranks` ranks. \throws ConfigError where they cannot
void require_stages(const settings::Config& config, const models::Model& model, kernels::Backend& backend, int ranks);

/// A config with what was left to the placement, and the ranks in the order of the places that they take.
struct PlacedRanks {
  Settled settled;
  std::unique_ptr<comm::Communicator> reordered;  ///< null: the ranks keep their order
  comm::Communicator& group;                      ///< the ranks in their new order
  int given_rank;                                 ///< this rank's number in the old order, of which the config speaks
};

/// Fills in what the config leaves to the placement. Does nothing where each rank holds the whole model and nothing is
/// left open. Collective. \throws ConfigError where the model does not fit into the ranks' memory
/// \param inspect says what the examples are like; called only where these matter
PlacedRanks place_ranks(comm::Communicator& group, const NodePlace& place, Settled asked,
                        const std::function<data::DatasetInfo()>& inspect, Log& log);

/// Why an experiment cannot run on GPUs: its model or strategy does not support them. Empty if it can.
std::string obstacle_to_gpus(const settings::Config& config);

/// Checks that the experiment supports GPUs where the config asks for them. \throws ConfigError if it does not
void require_way_to_device(const settings::Config& config);

/// What a rank found when it looked for a GPU.
struct FoundDevice {
  std::string host;
  std::string identity;  ///< the GPU that the rank would use, unique on its host; empty: none
  std::string missing;   ///< why there is no GPU, if so
};
/// Why the ranks cannot use the GPUs that they found: one found no GPU, or two found the same GPU. Empty if they can.
std::string obstacle_to_found(const std::vector<FoundDevice>& ranks, bool allow_shared_device);

/// Why this job cannot run the config on GPUs: its model or strategy, a rank without a GPU, or a GPU that ranks would
/// share. Empty if it can. Collective. \param node_rank this rank's number among all ranks of the job on its node
std::string obstacle_to_devices(comm::Communicator& group, const settings::Config& config, int node_rank);

/// Which CPU threads and which GPU a rank may use.
struct RankMachine {
  int node_rank = 0;  ///< the rank's number among all ranks of the job on this node
  int threads = 1;    ///< threads of the CPU
};

/// Makes the backend that the config asks for: on the GPU with number node_rank among those that the process sees
/// (modulo their count), or on the CPU. Collective: either all ranks use GPUs or none does; with device = "auto" the
/// log says which. The log also says what a library refuses on a GPU, so that work is done in a slower way.
/// \throws ConfigError, DeviceError if device = "cuda" is not possible
std::unique_ptr<kernels::Backend> make_backend(comm::Communicator& group, const settings::Config& config,
                                               const RankMachine& machine, Log& log);

}  // namespace unisono::session
