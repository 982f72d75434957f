#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "unisono/kernels/backend.hpp"
#include "unisono/kernels/compute_device.hpp"

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

}  // namespace unisono::planning
