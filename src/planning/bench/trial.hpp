#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>

#include "unisono/base/log.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/kernels/backend.hpp"
#include "unisono/kernels/compute_device.hpp"
#include "unisono/models/factory.hpp"
#include "unisono/nn/layer.hpp"
#include "unisono/parallel/fault.hpp"
#include "unisono/session/abilities.hpp"
#include "unisono/session/hosts.hpp"
#include "unisono/session/model_parts.hpp"
#include "unisono/session/synthetic_source.hpp"
#include "unisono/session/training_parts.hpp"
#include "unisono/settings/config.hpp"

namespace unisono::planning {

/// What a GPU did in some training steps, as its counters before and after them tell.
struct DeviceSteps {
  kernels::DeviceWork before, after;
  std::int64_t steps = 1;
};
/// What the backend's GPU was given so far; nothing where it is no GPU's.
std::optional<kernels::DeviceWork> work_of(const kernels::Backend& backend);
/// Nothing where there is no work.
std::optional<DeviceSteps> device_steps(std::optional<kernels::DeviceWork> before,
                                        std::optional<kernels::DeviceWork> after, std::int64_t steps);

nlohmann::ordered_json to_json(const DeviceSteps& work);
/// Lines for `unisono bench`, without the line break at the end: launches, products, engines, and all fallbacks.
std::string summary_text(const DeviceSteps& work);
/// The engines as a table, a line for each pass of each shape; empty where there are no convolutions.
std::string engine_table(const DeviceSteps& work);

/// How long training steps took.
struct BenchTiming {
  std::int64_t steps = 0;
  double seconds = 0;                 ///< of the slowest rank
  double median_step_seconds = 0;     ///< of the slowest rank
  bool steps_at_once = false;         ///< whether backward passes made steps of weights (nn::Pass::step)
  Seconds parts;                      ///< means over ranks
  session::Hosts hosts;               ///< of the ranks
  CounterSet counters;                ///< of all ranks
  std::optional<DeviceSteps> device;  ///< what this rank's GPU did; nothing on the CPU
};

/// A model that is trained on random data. Its construction and its steps are collective.
class BenchTrial {
 public:
  /// \param ranks must outlive it
  BenchTrial(const session::PlacedRanks& ranks, const models::ModelInputs& inputs, Log& log);

  session::ModelParts& parts() { return parts_; }
  Index tokens_per_example() const { return tokens_per_example_; }  ///< of language models; 0 for others
  bool on_device() const { return parts_.backend->device() != nullptr; }
  /// Makes steps until libraries are loaded and, on a GPU, kernels are recorded. \return times of the last ones
  BenchTiming warm_up();
  /// \param updates_follow whether all of g is written before it is used, so that no backward pass makes steps
  BenchTiming run(std::int64_t steps, bool updates_follow = false);

  struct Layers {
    BenchTiming timing;
    nn::LayerSeconds seconds;  ///< sums over the steps
  };
  /// Makes steps whose layers are timed. \pre the model is a network, on this rank as a whole
  Layers run_with_layers(std::int64_t steps);
  int optimizer_states() const;  ///< vectors as long as θ that the optimizer has

 private:
  comm::Communicator& world_;
  const settings::Config& config_;
  session::NodePlace place_;
  session::ModelParts parts_;
  session::TrainingParts training_;
  session::SyntheticSource source_;
  parallel::Fault fault_;
  Index tokens_per_example_;
  std::int64_t made_ = 0;
};

/// What the GPU of this rank makes of a config's training steps.
struct DeviceTrial {
  std::string obstacle;     ///< why no steps could be made; empty: they were
  std::string device = {};  ///< "…, NVIDIA H100 80GB HBM3, bf16"
  std::optional<DeviceSteps> steps = {};
};

/// Makes some training steps on random data where the config asks for GPUs; nothing where it asks for the CPU, or
/// leaves the choice and the ranks have no GPUs. Collective. \throws DeviceError e.g. where the model does not fit
std::optional<DeviceTrial> try_device(comm::Communicator& world, const settings::Config& config,
                                      const models::ModelInputs& inputs, Log& log);

}  // namespace unisono::planning
