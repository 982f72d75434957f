#include "bench/device_trial.hpp"

#include "bench/trial.hpp"
#include "unisono/session/abilities.hpp"
#include "unisono/session/device.hpp"

namespace unisono::planning {

std::optional<DeviceTrial> try_device(comm::Communicator& world, const settings::Config& config,
                                      const models::ModelInputs& inputs, Log& log) {
  constexpr std::int64_t kSteps = 4;
  if (config.device == settings::DeviceChoice::cpu) return {};
  const std::string obstacle = session::obstacle_to_devices(world, config, session::NodePlace(world).number());
  if (!obstacle.empty()) {
    if (config.device == settings::DeviceChoice::automatic) return {};
    return DeviceTrial{.obstacle = obstacle};
  }
  const session::PlacedRanks ranks = session::place_ranks(
      world, session::NodePlace(world), config, [&inputs] { return session::set_like(inputs); }, log);
  BenchTrial trial(ranks, inputs, log);
  trial.warm_up();
  const BenchTiming timing = trial.run(kSteps);
  return DeviceTrial{.obstacle = "", .device = trial.parts().device(), .steps = timing.device};
}

}  // namespace unisono::planning
