#pragma once

#include <optional>
#include <string>

#include "bench/device_report.hpp"
#include "unisono/base/log.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/models/factory.hpp"
#include "unisono/settings/config.hpp"

namespace unisono::planning {

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
