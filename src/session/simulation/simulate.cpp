#include "unisono/session/simulate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "unisono/base/clock.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/printable.hpp"
#include "unisono/base/random.hpp"
#include "unisono/base/virtual_runtime.hpp"
#include "unisono/comm/simulated.hpp"
#include "unisono/session/run_checks.hpp"
#include "unisono/session/settled.hpp"

namespace unisono::session {
namespace {

using settings::SimulationSettings;
using settings::StepTimes;

/// A factor of mean 1. \param spread standard deviation of its logarithm
double lognormal(double spread, RandomStream& random) {
  return std::exp(spread * random.normal() - spread * spread / 2);
}

/// What ranks' computations take.
class StepCosts {
 public:
  StepCosts(const SimulationSettings& settings, std::uint64_t seed) : settings_(settings), seed_(seed) {
    for (std::int64_t rank = 0; rank < settings.ranks; ++rank) {
      RandomStream random(seed, Purpose::simulation, 0, static_cast<std::uint32_t>(rank));
      double factor = lognormal(settings.speed_spread, random);
      if (random.uniform() < settings.slow_share) factor *= settings.slow_factor;
      factors_.push_back(factor);
    }
  }

  double seconds(int rank, std::int64_t examples, std::uint64_t number) const {
    return 1e-6 * settings_.microseconds_per_example * static_cast<double>(examples) *
           factors_[static_cast<std::size_t>(rank)] * variation(rank, number);
  }

 private:
  /// A factor of mean 1 for a rank's computation.
  double variation(int rank, std::uint64_t number) const {
    if (settings_.step_times == StepTimes::constant) return 1;
    RandomStream random(seed_, Purpose::simulation, number + 1, static_cast<std::uint32_t>(rank));
    const double spread = settings_.step_spread;
    if (settings_.step_times == StepTimes::lognormal) return lognormal(spread, random);
    return (1 - spread) * std::pow(1 - static_cast<double>(random.uniform()), -spread);
  }

  const SimulationSettings& settings_;
  std::uint64_t seed_;
  std::vector<double> factors_;  ///< by rank
};

comm::SimulatedNetwork network_of(const SimulationSettings& settings) {
  const auto link = [](double mbit, double microseconds) {
    return comm::SimulatedNetwork::Link{.bytes_per_second = mbit * 1e6 / 8, .seconds = 1e-6 * microseconds};
  };
  return {.ranks_per_host = static_cast<int>(settings.ranks_per_host),
          .between_hosts = link(settings.link_mbit, settings.link_microseconds),
          .in_host = link(settings.in_host_mbit, settings.in_host_microseconds)};
}

/// How many simulated ranks train.
int workers_of(const settings::Config& config) {
  return strategies::make_strategy(config.strategy)->workers(static_cast<int>(config.simulation.ranks));
}

/// A rank's examples in a step.
std::int64_t examples_of_step(const settings::Config& config) {
  return std::max<std::int64_t>(1, config.train.batch_size / workers_of(config));
}

void require_examples_for_all(const settings::Config& config, std::int64_t examples) {
  const int workers = workers_of(config);
  if (workers <= examples) return;
  throw ConfigError(fmt::format("simulation.ranks: {} for {}: some would train on none; simulate fewer ranks",
                                count_of(workers, "worker"), count_of(examples, "training example")));
}

/// The config of a run on one rank, without evaluations, that takes steps of the size of a simulated rank's.
settings::Config trial_config(const settings::Config& config, std::int64_t steps) {
  settings::Config trial = config;
  trial.simulation = {};
  trial.strategy = strategies::StrategySettings{};
  trial.strategy.kind = strategies::kind_with(&strategies::StrategyTraits::on_one_rank);
  trial.train.batch_size = examples_of_step(config);
  trial.train.accumulate = 1;
  trial.train.steps = steps;
  trial.train.evaluate_every_epochs = trial.train.evaluate_every_steps = 0;
  trial.train.early_stopping = {};
  trial.train.threads = 1;
  trial.train.divergence = 0;
  trial.schedule = {};
  return trial;
}

}  // namespace

std::optional<settings::Config> settle_simulation(Job& job, settings::Config config) {
  require_simulated(config);
  config.train.threads = 1;
  config.data.holds_all_parts = true;
  config.checkpoint.in_background = false;
  if (config.simulation.microseconds_per_example > 0) return config;
  constexpr std::int64_t kFirstSteps = 20;
  constexpr double kSeconds = 1;
  Log silent(0, /*terminal=*/false);
  Job part(job, job.ranks(), silent);
  const settings::Config sized = settle(config, data::inspect_dataset(config.data)).config;
  bool interrupted = false;
  const auto microseconds = [&](std::int64_t steps) {
    const RunResult result =
        run(part, job.ranks(), trial_config(sized, steps), {.watching = Watching::none, .results = Results::nowhere});
    interrupted = interrupted || result.status == RunStatus::interrupted;
    return 1e6 * result.seconds.compute / static_cast<double>(std::max<std::int64_t>(result.examples, 1));
  };
  const double first = microseconds(kFirstSteps);
  const double step = first * 1e-6 * static_cast<double>(examples_of_step(sized));
  const auto steps = static_cast<std::int64_t>(std::clamp(kSeconds / std::max(step, 1e-7), 20.0, 2000.0));
  const double measured = microseconds(steps);
  if (interrupted) return std::nullopt;
  // Two digits: it is not more exact, and the config is read more easily.
  const double digits = std::pow(10, std::floor(std::log10(std::max(measured, 1e-6))) - 1);
  config.simulation.microseconds_per_example = std::round(measured / digits) * digits;
  job.log().info(fmt::format("simulation.microseconds_per_example = {:g}, as measured on one core of this machine",
                             config.simulation.microseconds_per_example));
  return config;
}

RunResult simulate(Job& job, const settings::Config& config, const RunOptions& options, int threads,
                   SimulationCost* cost) {
  const auto ranks = static_cast<int>(config.simulation.ranks);
  // All ranks train on views of one set.
  const auto set = job.open_set(job.ranks(), config.data, static_cast<std::uint64_t>(config.seed));

  require_examples_for_all(config, (*set)->info().train);
  const StepCosts costs(config.simulation, static_cast<std::uint64_t>(config.seed));
  const Stopwatch watch;
  RunResult result;
  VirtualRuntime runtime(
      threads,
      [&costs](int rank, std::int64_t examples, std::uint64_t number) { return costs.seconds(rank, examples, number); },
      1e-9 * config.simulation.nanoseconds_per_update);
  comm::run_simulated(runtime, ranks, network_of(config.simulation), [&](comm::Communicator& group) {
    Log silent(group.rank(), /*terminal=*/false);
    Job part(job, group, group.is_root() ? job.log() : silent, &runtime);
    const RunResult own = run(part, group, config, options);
    if (group.is_root()) result = own;
  });
  if (cost != nullptr) {
    *cost = {
        .simulated_seconds = runtime.seconds(), .seconds = watch.seconds(), .computations = runtime.computations()};
  }
  return result;
}

}  // namespace unisono::session
