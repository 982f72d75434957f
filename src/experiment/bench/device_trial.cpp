#include "bench/device_trial.hpp"

#include "bench/trial.hpp"
#include "machine/abilities.hpp"
#include "machine/device.hpp"

namespace unisono::experiment {

std::optional<DeviceTrial> try_device(comm::Communicator& world, const Config& config,
                                      const models::ModelInputs& inputs, Log& log) {
  constexpr std::int64_t kSteps = 4;
  if (config.device == DeviceChoice::cpu) return {};
  const std::string obstacle = obstacle_to_devices(world, config, NodePlace(world).number());
  if (!obstacle.empty()) {
    if (config.device == DeviceChoice::automatic) return {};
    return DeviceTrial{.obstacle = obstacle};
  }
  const PlacedConfig placed = placed_config(
      world, NodePlace(world), config, [&inputs] { return set_like(inputs); }, log);
  const auto ordered = reordered(world, placed.order);
  BenchTrial trial(ordered ? *ordered : world, world.rank(), placed.config, inputs, log);
  trial.warm_up();
  const BenchTiming timing = trial.run(kSteps);
  return DeviceTrial{.obstacle = "", .device = trial.parts().device(), .steps = timing.device};
}

}  // namespace unisono::experiment
