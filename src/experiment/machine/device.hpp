#pragma once

#include <memory>
#include <string>
#include <vector>

#include "unisono/base/log.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/experiment/config.hpp"
#include "unisono/kernels/cuda.hpp"

namespace unisono::experiment {

/// Why an experiment cannot be computed on GPUs: its model or its strategy has no way there; empty where it can.
std::string obstacle_to_gpus(const Config& config);

/// \throws ConfigError where the config asks for GPUs and the experiment has no way there
void require_way_to_device(const Config& config);

/// What a rank found when it looked for a GPU.
struct FoundDevice {
  std::string host;
  std::string identity;  ///< of the GPU that it would take, on its host; empty: there is none
  std::string missing;   ///< then why
};
/// Why the ranks cannot have the GPUs that they found: some found none, or several the same one; empty where they can.
std::string obstacle_to_found(const std::vector<FoundDevice>& ranks, bool allow_shared_device);

/// Which CPU threads and which GPU a rank may have.
struct RankMachine {
  int node_rank = 0;  ///< among all ranks of the job on this node
  int threads = 1;    ///< of the CPU
};

/// The kernels that the config asks for: of this rank's GPU, the `node_rank`-th of those that it sees, or of the CPU.
/// Collective: all ranks compute on GPUs, or none does. Which, is said where the config leaves it open.
/// \throws ConfigError, DeviceError where device = "cuda" cannot be had
std::unique_ptr<kernels::Backend> make_backend(comm::Communicator& group, const Config& config,
                                               const RankMachine& machine, Log& log);

}  // namespace unisono::experiment
