#pragma once

#include <memory>
#include <string>
#include <vector>

#include "unisono/base/log.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/kernels/cuda.hpp"
#include "unisono/settings/config.hpp"

namespace unisono::session {

/// Why an experiment cannot run on GPUs: its model or strategy does not support them. Empty if it can.
std::string obstacle_to_gpus(const settings::Config& config);

/// \throws ConfigError if the config asks for GPUs and the experiment does not support them
void require_way_to_device(const settings::Config& config);

/// What a rank found when it looked for a GPU.
struct FoundDevice {
  std::string host;
  std::string identity;  ///< of the GPU that it would use, unique on its host; empty: none
  std::string missing;   ///< why, if there is none
};
/// Why the ranks cannot use the GPUs that they found: one found none, or two found the same. Empty if they can.
std::string obstacle_to_found(const std::vector<FoundDevice>& ranks, bool allow_shared_device);

/// Why this job cannot run the config on GPUs: its model or strategy, a rank without a GPU, or a GPU that ranks would
/// share. Empty if it can. Collective. \param node_rank this rank's number among all ranks of the job on its node
std::string obstacle_to_devices(comm::Communicator& group, const settings::Config& config, int node_rank);

/// Which CPU threads and which GPU a rank may use.
struct RankMachine {
  int node_rank = 0;  ///< among all ranks of the job on this node
  int threads = 1;    ///< of the CPU
};

/// Makes the backend that the config asks for: on a GPU, of those that the process sees the one with number node_rank
/// (modulo their count), or on the CPU. Collective: either all ranks use GPUs or none does; with device = "auto" the
/// log says which. The log also says what a library refuses on a GPU, so that work is done in a slower way.
/// \throws ConfigError, DeviceError if device = "cuda" is not possible
std::unique_ptr<kernels::Backend> make_backend(comm::Communicator& group, const settings::Config& config,
                                               const RankMachine& machine, Log& log);

}  // namespace unisono::session
