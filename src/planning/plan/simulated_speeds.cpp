#include <fmt/format.h>

#include <algorithm>

#include "plan/measure.hpp"
#include "plan/network.hpp"
#include "plan/prediction.hpp"
#include "plan/profile.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/log.hpp"
#include "unisono/base/rounded.hpp"
#include "unisono/planning/planning.hpp"
#include "unisono/session/model_parts.hpp"
#include "unisono/session/run_checks.hpp"
#include "unisono/session/settled.hpp"
#include "unisono/session/simulate.hpp"

namespace unisono::planning {
namespace {

constexpr int kDigits = 3;  // of what was measured
constexpr double kBitsOfByte = 8;

void require_ranks(const Profile& profile, const std::string& path, const settings::SimulationSettings& simulation) {
  if (simulation.ranks_per_host == profile.ranks_per_host || simulation.ranks == 1) return;
  throw ConfigError(fmt::format(
      "--profile {}: it is of {} on each host, but simulation.ranks_per_host is {}; set it to {}, or measure so many",
      path, count_of(profile.ranks_per_host, "rank"), simulation.ranks_per_host, profile.ranks_per_host));
}

void set_computations(const Profile& profile, const models::Model& model, const data::DatasetInfo& data,
                      settings::Config& config) {
  settings::SimulationSettings& simulation = config.simulation;
  const auto examples = static_cast<double>(session::examples_of_step(config));
  const std::int64_t per_host = std::min(simulation.ranks, simulation.ranks_per_host);
  const Ranks ranks{static_cast<int>((simulation.ranks + per_host - 1) / per_host), static_cast<int>(per_host)};
  const auto traffic =
      strategies::make_strategy(config.strategy)->traffic(model, static_cast<int>(simulation.ranks), 0, data);
  const ComputingSeconds seconds = computing_seconds(profile, ranks, examples, traffic ? &*traffic : nullptr);
  simulation.microseconds_per_example = rounded(1e6 * seconds.gradient / examples, kDigits);
  simulation.nanoseconds_per_update =
      rounded(1e9 * seconds.update / static_cast<double>(model.layout().size()), kDigits);
}

void set_link(const Link& link, double& mbit, double& microseconds) {
  if (link.megabytes_per_second <= 0) return;
  mbit = rounded(kBitsOfByte * link.megabytes_per_second, kDigits);
  microseconds = rounded(std::max(link.microseconds, 1e-3), kDigits);
}

/// How much longer sums of the model's gradient were than their bytes on the links.
double sum_factor(const Profile& profile, Index floats) {
  const Curve measured = profile.sums_of_all.curve();
  if (measured.empty() || profile.between_hosts.megabytes_per_second <= 0) return 1;
  const Ranks ranks{static_cast<int>(profile.hosts), static_cast<int>(profile.ranks_per_host)};
  const double bytes = sizeof(float) * static_cast<double>(floats);
  const ExchangeCost by_links =
      Network(profile, ranks, /*measured_links=*/false).cost({.pattern = strategies::Pattern::sum}, bytes);
  return rounded((measured.at(bytes) - by_links.copying) / by_links.link, kDigits);
}

/// A speed that a profile gives, and what `[simulation]` may have.
struct Speed {
  const char* key;
  double settings::SimulationSettings::*value;
  double least, most;
};
constexpr Speed kSpeeds[] = {
    {"microseconds_per_example", &settings::SimulationSettings::microseconds_per_example, 1e-9, 1e9},
    {"nanoseconds_per_update", &settings::SimulationSettings::nanoseconds_per_update, 0, 1e9},
    {"link_mbit", &settings::SimulationSettings::link_mbit, 1e-9, 1e9},
    {"link_microseconds", &settings::SimulationSettings::link_microseconds, 1e-9, 1e9},
    {"in_host_mbit", &settings::SimulationSettings::in_host_mbit, 1e-9, 1e9},
    {"in_host_microseconds", &settings::SimulationSettings::in_host_microseconds, 1e-9, 1e9},
    {"sum_factor", &settings::SimulationSettings::sum_factor, 0.01, 1000}};

void require_possible(const settings::SimulationSettings& simulation, const std::string& path) {
  for (const Speed& speed : kSpeeds) {
    const double value = simulation.*speed.value;
    if (value >= speed.least && value <= speed.most) continue;
    throw ConfigError(fmt::format(
        "--profile {}: simulation.{} would be {:g}, but must be between {:g} and {:g}; measure the profile again", path,
        speed.key, value, speed.least, speed.most));
  }
}

/// What the command line sets stays.
void keep_overrides(const settings::SimulationSettings& given, const std::vector<std::string>& overrides,
                    settings::SimulationSettings& simulation) {
  for (const Speed& speed : kSpeeds) {
    const std::string begin = fmt::format("simulation.{}=", speed.key);
    const auto sets = [&](const std::string& text) { return text.starts_with(begin); };
    if (std::ranges::any_of(overrides, sets)) simulation.*speed.value = given.*speed.value;
  }
}

}  // namespace

settings::Config with_speeds_of(const std::string& path, settings::Config config,
                                const std::vector<std::string>& overrides, Log& log) {
  if (!config.simulation.is_on()) return config;
  const Profile profile = read_profile(path);
  session::require_simulated(config);
  const data::DatasetInfo data = data::inspect_dataset(config.data);
  settings::Config sized = session::settle(config, data).config;
  const models::ModelInputs inputs = shapes_of(sized, {});
  const auto backend = kernels::make_cpu_backend(1);
  LocalReducer alone;
  const auto model = models::make_model(sized.model, inputs, session::model_context(*backend, alone, true, sized));
  if (model->in_place() != nullptr || model->staged() == nullptr) {
    throw ConfigError(
        fmt::format("--profile: profiles are of networks, but model.kind = \"{}\" is none; leave it out, and set "
                    "simulation.microseconds_per_example, or 0 to have it measured",
                    config.model.kind));
  }
  require_same_model(profile, path, {sized, inputs, data, *model, {}, {}});
  require_ranks(profile, path, sized.simulation);
  set_computations(profile, *model, data, sized);
  const settings::SimulationSettings given = config.simulation;
  settings::SimulationSettings& simulation = config.simulation = sized.simulation;
  set_link(profile.between_hosts, simulation.link_mbit, simulation.link_microseconds);
  set_link(profile.in_host, simulation.in_host_mbit, simulation.in_host_microseconds);
  simulation.sum_factor = sum_factor(profile, model->layout().size());
  keep_overrides(given, overrides, simulation);
  require_possible(simulation, path);
  log.info(
      fmt::format("as fast as ranks of {} on {}: {:g} µs an example, {:g} ns an updated parameter, {} {:g} Mbit/s and "
                  "{:g} µs, sums {:g} times as long as their bytes",
                  count_of(profile.threads, "thread"), profile.cpu, simulation.microseconds_per_example,
                  simulation.nanoseconds_per_update,
                  profile.between_hosts.megabytes_per_second > 0 ? "links as measured:" : "links as in the config:",
                  simulation.link_mbit, simulation.link_microseconds, simulation.sum_factor));
  return config;
}

}  // namespace unisono::planning
