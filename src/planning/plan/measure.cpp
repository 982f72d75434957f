#include "plan/measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "bench/trial.hpp"
#include "plan/measure_messages.hpp"
#include "plan/network.hpp"
#include "plan/passes.hpp"
#include "plan/prediction.hpp"
#include "unisono/base/clock.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/median.hpp"
#include "unisono/optim/optimizer.hpp"
#include "unisono/parallel/pipeline.hpp"
#include "unisono/session/abilities.hpp"
#include "unisono/session/placement.hpp"
#include "unisono/strategies/catalog.hpp"

namespace unisono::planning {

settings::Config alone(settings::Config config) {
  if (config.whole_batch()) return config;  // which one rank trains as several do
  config.strategy = {.kind = strategies::kind_with(&strategies::StrategyTraits::on_one_rank)};
  config.train.accumulate = config.train.micro_batches = 1;
  config.replica.stages = config.replica.tensor = 1;
  config.replica.tensor_leaves = 0;
  config.replica.placement = {};
  config.communication.reduction = comm::Reduction::fast;
  return config;
}

namespace {

constexpr double kSecondsOfSteps = 0.2;  // for which steps of one number of examples are timed in a try
constexpr int kTries = 3;                // at each number, after the others': a machine is faster at some times
constexpr int kRounds = 5;               // of which the median counts
/// Of threads that wait for messages: steps of small models take the shortest one, periods of larger ones the longest.
constexpr std::array kWaits = {0.0001, 0.0016, 0.0256};

// Steps ---------------------------------------------------------------------------------------------------------------

settings::Config alone(settings::Config config, int threads, Index examples) {
  config = planning::alone(std::move(config));
  config.device = settings::DeviceChoice::cpu;
  config.train.threads = threads;
  config.train.batch_size = examples;
  return config;
}

Index middle(const std::vector<Index>& examples) { return examples[examples.size() / 2]; }

/// Steps of one number of examples on this rank, which are timed while others that measure, too, do the same. Seconds
/// are means, not medians: where ranks share cores, each has steps with a core of its own and steps without.
class TimedSteps {
 public:
  TimedSteps(comm::Communicator& rank, const settings::Config& config, const models::ModelInputs& inputs, Log& log)
      : placed_(session::place_ranks(
            rank, session::NodePlace(rank), session::settle(config, {}),
            [&inputs] { return session::set_like(inputs); }, log)),
        trial_(placed_, inputs, log) {
    const double one = std::max(trial_.warm_up().median_step_seconds, 1e-7);
    steps_ = std::clamp<std::int64_t>(std::llround(kSecondsOfSteps / one), 3, 100'000);
  }

  /// A step with its update.
  double whole() { return trial_.run(steps_).seconds / count(); }
  /// The same, without what comes once after some steps: ranks at a pace of their own form one model then.
  double one_more() { return std::max(trial_.run(3 * steps_).seconds - trial_.run(steps_).seconds, 0.0) / 2 / count(); }
  struct Parts {
    double gradient = 0, update = 0;
  };
  /// A step whose update follows the gradient.
  Parts parts() {
    const BenchTiming timing = trial_.run(steps_, /*updates_follow=*/true);
    const double update = timing.parts.optimizer / count();
    return {.gradient = timing.seconds / count() - update, .update = update};
  }

 private:
  double count() const { return static_cast<double>(steps_); }

  session::PlacedRanks placed_;
  BenchTrial trial_;
  std::int64_t steps_ = 1;
};

/// The segments of a network, which are timed one after the other: no more than one is in memory.
class TimedSegments {
 public:
  TimedSegments(const Measured& measured, int threads)
      : measured_(measured),
        backend_(kernels::make_cpu_backend(threads)),
        model_(models::make_model(measured.config.model, measured.inputs,
                                  session::model_context(*backend_, alone_, true, measured.config))) {}

  std::vector<parallel::PassSeconds> passes(Index examples) const {
    return parallel::time_segments(*model_->staged(), *backend_, examples);
  }
  double gradient(Index examples) const {
    double seconds = 0;
    for (const parallel::PassSeconds& segment : passes(examples)) seconds += segment.sum();
    return seconds;
  }
  /// Of all parameters, from as many as the caches of usual CPUs cannot keep.
  double update() const {
    constexpr Index kMost = Index{4} << 20;
    ParameterLayout layout;
    layout.add({.name = "some", .shape = {std::min(measured_.model.layout().size(), kMost)}});
    Buffer parameters(layout.size(), backend_->memory()), gradient(layout.size(), backend_->memory());
    const auto optimizer = optim::make_optimizer(measured_.config.optimizer, layout, *backend_);
    std::vector<double> rounds;
    for (int round = 0; round < kRounds; ++round) {
      const Stopwatch watch;
      optimizer->step(parameters.view(), gradient.view(), measured_.config.optimizer.learning_rate);
      rounds.push_back(watch.seconds());
    }
    return median_of(rounds) * static_cast<double>(measured_.model.layout().size()) /
           static_cast<double>(layout.size());
  }

 private:
  const Measured& measured_;
  LocalReducer alone_;
  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<models::Model> model_;
};

/// The mean of the ranks' passes, which all make at once. Collective.
SegmentSeconds time_passes(comm::Communicator& world, const Measured& measured, int threads) {
  constexpr Index kMost = 256;  // examples
  const Index batch = std::min(measured.examples.front(), kMost);
  const TimedSegments segments(measured, threads);
  world.barrier();
  SegmentSeconds seconds;
  for (const parallel::PassSeconds& own : segments.passes(batch)) {
    const auto of_example = [&](double pass) {
      return std::max(world.sum(pass) / world.size() / static_cast<double>(batch), 1e-12);
    };
    seconds.forward.push_back(of_example(own.forward));
    seconds.backward_inputs.push_back(of_example(own.backward_inputs));
    seconds.backward_weights.push_back(of_example(own.backward_weights));
  }
  return seconds;
}

/// A thread that waits for messages as servers do: for so long, again and again.
class WaitingThread {
 public:
  explicit WaitingThread(double seconds)
      : thread_([this, seconds] {
          while (!stop_) {
            const Stopwatch watch;
            for (Idle idle(0); !stop_ && watch.seconds() < seconds; idle.pause()) {
            }
          }
        }) {}
  ~WaitingThread() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

/// Where a value is above the one before, both become their mean, and so on: the nearest values that do not ascend.
void level_out_ascents(std::vector<double>& values) {
  struct Level {
    double sum = 0;
    int count = 0;
    double mean() const { return sum / count; }
  };
  std::vector<Level> levels;
  for (const double value : values) {
    levels.push_back({value, 1});
    while (levels.size() > 1 && levels.back().mean() > levels[levels.size() - 2].mean()) {
      const Level last = levels.back();
      levels.pop_back();
      levels.back() = {levels.back().sum + last.sum, levels.back().count + last.count};
    }
  }
  auto value = values.begin();
  for (const Level& level : levels) value = std::fill_n(value, level.count, level.mean());
}

/// Gradients of some examples beside a thread that waits again and again, for each of some waits; and without it, by
/// turns: a machine is faster at some times. While a message of another rank is awaited: between hosts, a thread of the
/// communicator looks for it, too. Longer waits cost less. Collective.
WaitingCosts time_waiting(comm::Communicator& world, comm::Communicator& rank, const Measured& measured, int threads) {
  constexpr int kTag = 2;
  Log silent(world.rank(), /*terminal=*/false);
  std::byte sent{}, received{};
  const int next = (world.rank() + 1) % world.size(), before = (world.rank() + world.size() - 1) % world.size();
  TimedSteps steps(rank, alone(measured.config, threads, middle(measured.examples)), measured.inputs, silent);
  std::array<double, kWaits.size()> without{}, beside{};
  for (int round = 0; round < kTries; ++round) {
    for (std::size_t i = 0; i < kWaits.size(); ++i) {
      world.barrier();
      without[i] += steps.parts().gradient;
      const auto message = world.start_receive(std::span(&received, 1), before, kTag);
      world.barrier();
      {
        const WaitingThread waiting(kWaits[i]);
        beside[i] += steps.parts().gradient;
      }
      const auto sending = world.start_send(std::span(&sent, 1), next, kTag);
      message->wait();
      sending->wait();
    }
  }
  WaitingCosts costs{.seconds = {kWaits.begin(), kWaits.end()}, .factor = {}};
  for (std::size_t i = 0; i < kWaits.size(); ++i) {
    costs.factor.push_back(world.sum(beside[i] / without[i]) / world.size());
  }
  level_out_ascents(costs.factor);
  for (double& factor : costs.factor) factor = std::max(factor, 1.0);
  return costs;
}

}  // namespace

std::string identity_of(const Measured& measured) {
  const int states = optim::optimizer_state_vectors(measured.config.optimizer);
  return fmt::format(
      "{}, {} flops an example, {}", count_of(measured.model.layout().parameters(), "parameter"),
      grouped(std::llround(measured.model.flops_per_example())),
      count_of(states, "vector") + (measured.config.whole_batch() ? " of a whole-batch method" : " of the optimizer"));
}

void require_same_model(const Profile& profile, const std::string& path, const Measured& measured) {
  const std::string here = identity_of(measured);
  if (profile.model != here) {
    throw ConfigError(fmt::format("--profile {}: it is of another model ({}; here: {}); measure this one", path,
                                  profile.model, here));
  }
  if (measured.model.staged() == nullptr) return;
  const auto segments = measured.model.staged()->network().cut_points().size() + 1;
  const auto known = profile.segments.forward.size();
  if (known == 0 || known == segments) return;
  throw ConfigError(
      fmt::format("--profile {}: [segments] has the passes of {}, but the network has {}; remove it, or "
                  "measure again",
                  path, count_of(static_cast<std::int64_t>(known), "segment"), segments));
}

namespace {

struct StepSeconds {
  double gradient = 0, update = 0;  ///< where the update follows
  double whole = 0;                 ///< with its update
};

/// One try. \param whole_fits whether a rank's memory has room for the whole model
StepSeconds time_step(comm::Communicator& rank, const Measured& measured, int threads, bool whole_fits,
                      Index examples) {
  Log silent(rank.rank(), /*terminal=*/false);
  if (!whole_fits) {
    const TimedSegments segments(measured, threads);
    StepSeconds step{.gradient = segments.gradient(examples), .update = segments.update()};
    step.whole = step.gradient + step.update;
    return step;
  }
  TimedSteps steps(rank, alone(measured.config, threads, examples), measured.inputs, silent);
  const double whole = steps.whole();
  const TimedSteps::Parts parts = steps.parts();
  return {.gradient = parts.gradient, .update = parts.update, .whole = whole};
}

/// Of a rank alone the best try, which others disturbed least; of ranks together the mean, since each has faster and
/// slower times where they share cores.
StepSeconds of_tries(const std::vector<StepSeconds>& tries, bool together) {
  if (!together) {
    const auto parts = [](const StepSeconds& one) { return one.gradient + one.update; };
    StepSeconds best = *std::ranges::min_element(tries, {}, parts);
    best.whole = std::ranges::min_element(tries, {}, &StepSeconds::whole)->whole;
    return best;
  }
  const auto count = static_cast<double>(tries.size());
  StepSeconds mean;
  for (const StepSeconds& one : tries) {
    mean.gradient += one.gradient / count;
    mean.update += one.update / count;
    mean.whole += one.whole / count;
  }
  return mean;
}

/// As long as the slowest of the ranks that are `active` takes, while they all compute at once. Collective.
/// \param whole_fits whether a rank's memory has room for the whole model
StepCurves time_curves(comm::Communicator& world, comm::Communicator& rank, const Measured& measured, int threads,
                       bool whole_fits, bool active, bool together) {
  std::vector<std::vector<StepSeconds>> tries(measured.examples.size());
  for (int round = 0; round < (whole_fits ? kTries : 1); ++round) {
    for (std::size_t i = 0; i < tries.size(); ++i) {
      if (active) tries[i].push_back(time_step(rank, measured, threads, whole_fits, measured.examples[i]));
      world.barrier();
    }
  }
  StepCurves curves;
  for (std::size_t i = 0; i < tries.size(); ++i) {
    const StepSeconds own = active ? of_tries(tries[i], together) : StepSeconds{};
    std::array<double, 3> slowest = {own.gradient, own.whole, own.update};
    world.allreduce_max(std::span<double>(slowest));
    for (double& one : slowest) one = std::max(one, 1e-9);
    curves.examples.push_back(static_cast<double>(measured.examples[i]));
    curves.gradient.push_back(slowest[0]);
    curves.whole.push_back(slowest[1]);
    curves.update.push_back(slowest[2]);
  }
  return curves;
}

/// Where one rank with more threads could take the place of all ranks, that rank alone. Collective.
void time_whole_host(comm::Communicator& world, comm::Communicator& rank, const Measured& measured, Profile& profile) {
  const bool is_open = measured.config.train.threads == 0 && !traits_of(measured.config.strategy).shares_model;
  if (!is_open || profile.hosts > 1 || profile.ranks_per_host == 1) return;
  Log silent(world.rank(), /*terminal=*/false);
  const int own = session::place_rank(rank, session::NodePlace(rank), planning::alone(measured.config), silent).threads;
  const auto threads = -world.max(-std::int64_t{own});
  if (threads <= profile.threads) return;
  profile.whole_host_threads = threads;
  profile.whole_host = time_curves(world, rank, measured, static_cast<int>(threads), /*whole_fits=*/true,
                                   /*active=*/world.is_root(), /*together=*/false);
}

/// Of a rank's threads, which all make steps of their own.
StepCurves time_workers(const Measured& measured, int threads) {
  constexpr double kPatience = 3600;  // seconds, for which a thread may wait for the slowest one
  StepCurves curves;
  const auto time = [&](comm::Communicator& worker) {
    StepCurves own = time_curves(worker, *worker.alone(), measured, /*threads=*/1, /*whole_fits=*/true, /*active=*/true,
                                 /*together=*/true);
    if (worker.is_root()) curves = std::move(own);
  };
  comm::run_as_threads(threads, time, kPatience);
  return curves;
}

/// Gradients and updates of mini-batches. Collective. \param whole_fits whether a rank's memory has room for the model
void time_steps(comm::Communicator& world, const Measured& measured, bool whole_fits, Profile& profile) {
  const auto threads = static_cast<int>(profile.threads);
  const auto rank = world.alone();
  const auto time = [&](bool active, bool together) {
    return time_curves(world, *rank, measured, threads, whole_fits, active, together);
  };
  profile.one_rank = time(world.is_root(), false);
  profile.one_host = profile.ranks_per_host == 1 ? profile.one_rank : time(world.node() == 0, true);
  profile.all_hosts = profile.hosts == 1 ? profile.one_host : time(true, true);
  if (whole_fits) time_whole_host(world, *rank, measured, profile);
  const bool has_workers = strategies::make_strategy(measured.config.strategy)->has_workers(measured.model);
  const bool all_fit = static_cast<double>(threads * measured.memory_bytes) <= profile.memory_limit();
  if (has_workers && world.size() == 1 && all_fit) profile.workers = time_workers(measured, threads);
  profile.segments = time_passes(world, measured, threads);
  if (whole_fits) profile.waiting = time_waiting(world, *rank, measured, threads);
}

/// What compressed sums add to a step of these ranks, beside what else it takes: nanoseconds for each float.
/// Collective. \return 0 where the ranks cannot train so
double time_added(comm::Communicator& group, const Measured& measured, const Way& way, const Profile& profile) {
  if (way.config.replica.stages > 1 || way.config.replica.tensor > 1) return 0;
  settings::Config config = way.config;
  config.device = settings::DeviceChoice::cpu;
  config.train.threads = profile.threads;
  const int per_host = group.node_size();
  const Ranks ranks{group.size() / per_host, per_host};
  const int states = optim::optimizer_state_vectors(config.optimizer);
  const auto traffic =
      strategies::make_strategy(config.strategy)->traffic(measured.model, ranks.all(), states, measured.data);
  const double examples = static_cast<double>(config.train.batch_size) / ranks.all();
  const ComputingSeconds computing = computing_seconds(profile, ranks, examples, nullptr);
  double others =
      computing.gradient + computing.update +
      touching_seconds(profile, ranks, examples, states, measured.model.layout().size(), traffic->touched_floats);
  const Network network(profile, ranks, /*measured_links=*/true);
  double encoded = 0;
  for (const strategies::Exchange& exchange : traffic->exchanges) {
    const double floats = static_cast<double>(exchange.floats) / exchange.every_steps;
    if (exchange.encoded) {
      encoded += floats;
    } else {
      others += network.cost(exchange, sizeof(float) * floats).seconds();
    }
  }
  const auto backend = kernels::make_cpu_backend(1);
  const std::int64_t memory = memory_of_rank(config, ranks, *backend, measured.data, 0, /*tries=*/false);
  if (static_cast<double>(memory) > profile.memory_limit()) return 0;
  Log silent(group.rank(), /*terminal=*/false);
  try {
    TimedSteps steps(group, config, measured.inputs, silent);
    double seconds = 0;
    const bool at_own_pace = traits_of(config.strategy).at_own_pace;
    for (int round = 0; round < kTries; ++round) seconds += (at_own_pace ? steps.one_more() : steps.whole()) / kTries;
    return std::max(1e9 * (seconds - others) / std::max(encoded, 1.0), EncoderSpeed::kLeast);
  } catch (const ConfigError&) {
    return 0;  // on all ranks alike
  }
}

/// Collective.
void time_compressed_steps(comm::Communicator& world, const Measured& measured, Profile& profile) {
  const auto host = world.split(world.node(), world.rank());
  for (EncoderSpeed& encoder : profile.encoders) {
    const auto way = std::ranges::find(measured.ways, encoder.of, &Way::name);
    if (host->size() > 1) encoder.in_host_ns = time_added(*host, measured, *way, profile);
    if (profile.hosts > 1) encoder.of_all_ns = time_added(world, measured, *way, profile);
  }
}

/// \throws ConfigError where a rank cannot hold what a whole-batch method needs
void require_whole_fits(const Measured& measured, bool whole_fits, const Profile& profile) {
  if (whole_fits) return;
  throw ConfigError(fmt::format(
      "plan: one rank would need {}, and a rank may take {}: portions of the training set cannot be timed; start fewer "
      "ranks on each host, or measure where there is more memory",
      session::bytes_text(static_cast<double>(measured.memory_bytes)), session::bytes_text(profile.memory_limit())));
}

}  // namespace

Profile measure_profile(comm::Communicator& world, const Measured& measured, Log& log) {
  const session::NodePlace place(world);
  const int per_host = world.node_size();
  const auto least = -world.max(std::int64_t{-per_host}), most = world.max(std::int64_t{per_host});
  if (least != most) {
    throw LaunchError(
        fmt::format("plan: some hosts have {} and others {}; start as many on each", count_of(least, "rank"), most));
  }
  const auto backend = kernels::make_cpu_backend(1);
  const session::RankAbilities abilities =
      session::abilities_of(world, alone(measured.config), measured.model, *backend, world.size());
  const double limit = std::ranges::min(abilities.limits);
  const int threads = session::place_rank(world, place, measured.config, log).threads;
  Profile profile{.cpu = session::cpu_name(),
                  .model = identity_of(measured),
                  .hosts = world.size() / per_host,
                  .ranks_per_host = per_host,
                  .threads = threads,
                  .memory_mebibytes = std::isfinite(limit) ? std::floor(limit / (1 << 20)) : 0};
  const bool whole_fits = static_cast<double>(measured.memory_bytes) <= profile.memory_limit();
  const bool by_portions = measured.config.whole_batch();
  log.info(fmt::format("measuring {} of {} on {}, and messages",
                       by_portions  ? "portions of the training set"
                       : whole_fits ? "steps"
                                    : "layers one by one, because a rank cannot hold all,",
                       measured.config.name, count_of(world.size(), "rank")));
  if (by_portions) {
    require_whole_fits(measured, whole_fits, profile);
    profile.portions = time_portions(world, measured, threads);
  } else {
    time_steps(world, measured, whole_fits, profile);
  }
  const bool makes_steps = whole_fits && !by_portions;
  {
    const auto rank = world.alone();
    Log silent(world.rank(), /*terminal=*/false);
    std::optional<TimedSteps> steps;  // in memory only as long as messages are timed
    if (profile.hosts > 1 && makes_steps) {
      steps.emplace(*rank, alone(measured.config, threads, middle(measured.examples)), measured.inputs, silent);
    }
    time_messages(world, measured, steps ? std::function<void()>([&steps] { steps->parts(); }) : nullptr, profile);
  }
  if (makes_steps) time_compressed_steps(world, measured, profile);
  return profile;
}

}  // namespace unisono::planning
