#include "unisono/session/simulate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint_folder.hpp"
#include "machine/placement.hpp"
#include "unisono/base/clock.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/printable.hpp"
#include "unisono/base/random.hpp"
#include "unisono/base/rounded.hpp"
#include "unisono/base/virtual_runtime.hpp"
#include "unisono/comm/simulated.hpp"
#include "unisono/records/metrics_log.hpp"
#include "unisono/records/recorded_times.hpp"
#include "unisono/records/run_folder.hpp"
#include "unisono/session/abilities.hpp"
#include "unisono/session/memory.hpp"
#include "unisono/session/model_parts.hpp"
#include "unisono/session/run_checks.hpp"
#include "unisono/session/settled.hpp"

namespace unisono::session {
namespace {

using settings::SimulationSettings;
using settings::StepTimes;

constexpr const char* kFailures = "/failures.json";  // of a run folder

/// A factor of mean 1. \param spread standard deviation of its logarithm
double lognormal(double spread, RandomStream& random) {
  return std::exp(spread * random.normal() - spread * spread / 2);
}

/// \param mean of the exponential distribution
double exponential(double mean, RandomStream& random) {
  return -mean * std::log1p(-static_cast<double>(random.uniform()));
}

/// What ranks' computations take.
class StepCosts {
 public:
  StepCosts(const SimulationSettings& settings, std::uint64_t seed) : settings_(settings), seed_(seed) {
    if (!settings.gradient_times.empty()) {
      recorded_ = records::read_gradient_times(settings.gradient_times, "simulation.gradient_times");
      std::erase_if(recorded_, [](const std::vector<double>& rank) { return rank.empty(); });  // servers
    }
    for (std::int64_t rank = 0; rank < settings.ranks; ++rank) {
      RandomStream random(seed, Purpose::simulation, 0, static_cast<std::uint32_t>(rank));
      double factor = lognormal(settings.speed_spread, random);
      if (random.uniform() < settings.slow_share) factor *= settings.slow_factor;
      factors_.push_back(factor);
    }
  }

  /// \param start how often the run has started before \param number of the computation, of this start
  double seconds(int rank, std::int64_t examples, std::uint64_t start, std::uint64_t number) const {
    return mean(rank, examples, number) * factors_[static_cast<std::size_t>(rank)] *
           variation(rank, (start << 32) + number);
  }

 private:
  double mean(int rank, std::int64_t examples, std::uint64_t number) const {
    if (recorded_.empty()) return 1e-6 * settings_.microseconds_per_example * static_cast<double>(examples);
    const std::vector<double>& recorded = recorded_[static_cast<std::size_t>(rank) % recorded_.size()];
    return recorded[number % recorded.size()];
  }

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
  std::vector<double> factors_;                ///< by rank
  std::vector<std::vector<double>> recorded_;  ///< seconds of gradients, of each rank that has some; empty: none
};

/// By how many seconds each rank begins later than the others.
std::vector<double> delays_of(const SimulationSettings& settings, std::uint64_t seed) {
  const auto ranks = static_cast<std::size_t>(settings.ranks);
  std::vector<double> delays;
  if (!settings.start_times.empty()) {
    delays = records::read_start_times(settings.start_times, "simulation.start_times");
    if (delays.size() > ranks) {
      throw DataError(fmt::format("simulation.start_times: {} names rank {}, but there are {}", settings.start_times,
                                  delays.size() - 1, count_of(settings.ranks, "rank")));
    }
  }
  delays.resize(ranks);
  for (std::size_t rank = 0; rank < ranks && settings.late_share > 0; ++rank) {
    RandomStream random(seed, Purpose::simulation, std::numeric_limits<std::uint64_t>::max(),
                        static_cast<std::uint32_t>(rank));
    if (random.uniform() < settings.late_share) delays[rank] = exponential(settings.late_seconds, random);
  }
  return delays;
}

/// When the messages of a recorded run arrived. \throws DataError where it had another number of ranks
comm::RecordedArrivals arrivals_of(const SimulationSettings& settings) {
  if (settings.message_times.empty()) return {};
  const std::vector<comm::Arrival> times =
      records::read_message_times(settings.message_times, "simulation.message_times");
  int recorded = 0;
  for (const comm::Arrival& one : times) recorded = std::max({recorded, one.from + 1, one.to + 1});
  if (recorded != settings.ranks) {
    throw DataError(fmt::format("simulation.message_times: {} has messages of {}, but {} simulated; simulate as many",
                                settings.message_times, count_of(recorded, "rank"),
                                settings.ranks == 1 ? "1 is" : fmt::format("{} are", settings.ranks)));
  }
  return comm::RecordedArrivals(times);
}

comm::SimulatedNetwork network_of(const SimulationSettings& settings) {
  const auto link = [](double mbit, double microseconds) {
    return comm::SimulatedNetwork::Link{.bytes_per_second = mbit * 1e6 / 8, .seconds = 1e-6 * microseconds};
  };
  return {.ranks_per_host = static_cast<int>(settings.ranks_per_host),
          .between_hosts = link(settings.link_mbit, settings.link_microseconds),
          .in_host = link(settings.in_host_mbit, settings.in_host_microseconds),
          .sum_factor = settings.sum_factor};
}

/// How many simulated ranks train.
int workers_of(const settings::Config& config) {
  return strategies::make_strategy(config.strategy)->workers(static_cast<int>(config.simulation.ranks));
}

void require_examples_for_all(const settings::Config& config, std::int64_t examples) {
  const int workers = workers_of(config);
  if (workers <= examples) return;
  throw ConfigError(fmt::format("simulation.ranks: {} for {}: some would train on none; simulate fewer ranks",
                                count_of(workers, "worker"), count_of(examples, "training example")));
}

/// Says what the ranks need. \throws ConfigError where that does not fit into memory
void require_memory(const settings::Config& config, const data::DatasetInfo& data, Log& log) {
  const auto backend = kernels::make_cpu_backend(1);
  LocalReducer alone;
  const auto strategy = strategies::make_strategy(config.strategy);
  const models::ModelContext context = model_context(*backend, alone, strategy->steps_together(), config, data);
  const ModelOfRank of_rank(config, inputs_of(data), context);
  const auto needed = static_cast<double>(predict_memory_of_all({.config = config,
                                                                 .model = of_rank.model(),
                                                                 .backend = *backend,
                                                                 .data = data,
                                                                 .ranks = static_cast<int>(config.simulation.ranks),
                                                                 .strategy = *strategy}));
  const double free = free_memory_bytes(1);
  if (needed <= free) {
    return log.info(fmt::format("memory for {}: about {}", count_of(config.simulation.ranks, "simulated rank"),
                                bytes_text(needed)));
  }
  throw ConfigError(fmt::format("simulation.ranks: {} of this model need about {}, but {} are free; simulate fewer",
                                count_of(config.simulation.ranks, "rank"), bytes_text(needed), bytes_text(free)));
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

/// When the first ranks computed their first gradients, for a drawing.
class Timeline {
 public:
  void add(int rank, double begin, double seconds) {
    constexpr std::size_t kRanks = 12, kGradients = 40;
    std::vector<Span>& spans = spans_[rank];
    if (spans_.size() > kRanks) {
      spans_.erase(rank);
    } else if (spans.size() < kGradients) {
      spans.push_back({begin, begin + seconds});
    }
  }
  nlohmann::ordered_json json() const {
    nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
    for (const auto& [rank, spans] : spans_) ranks.push_back({{"rank", rank}, {"gradients", spans}});
    return {{"ranks", ranks}};
  }

 private:
  using Span = std::array<double, 2>;       // simulated seconds: begin and end
  std::map<int, std::vector<Span>> spans_;  // by rank
};

/// Which of the simulated hosts are there.
class Hosts {
 public:
  /// \param least_ranks with which the run can go on
  Hosts(const SimulationSettings& settings, std::int64_t least_ranks)
      : settings_(settings),
        least_ranks_(least_ranks),
        needed_((settings.ranks + settings.ranks_per_host - 1) / settings.ranks_per_host),
        all_(needed_ + settings.spare_hosts) {}

  void fail(double seconds) {
    if (settings_.repair_hours > 0) there_again_.push_back(seconds + 3600 * settings_.repair_hours);
  }
  int ranks_at(double seconds) const {
    const std::int64_t there = std::min(needed_, there_at(seconds));
    return static_cast<int>(std::min(settings_.ranks, there * settings_.ranks_per_host));
  }
  /// The first moment, from this one on, at which enough are there.
  double first_there_after(double seconds) const {
    if (ranks_at(seconds) >= least_ranks_) return seconds;
    double first = std::numeric_limits<double>::infinity();
    for (const double again : there_again_) {
      if (again > seconds && ranks_at(again) >= least_ranks_) first = std::min(first, again);
    }
    return first;
  }

 private:
  std::int64_t there_at(double seconds) const {
    return all_ - std::ranges::count_if(there_again_, [seconds](double again) { return again > seconds; });
  }

  const SimulationSettings& settings_;
  std::int64_t least_ranks_, needed_, all_;
  std::vector<double> there_again_;  ///< when failed hosts are
};

/// A run on simulated ranks, which starts again when a simulated host fails.
class Simulation {
 public:
  Simulation(Job& job, const settings::Config& config, const RunOptions& options, int threads)
      : job_(job),
        config_(config),
        options_(options),
        threads_(threads),
        hosts_(config.simulation, config.strategy.servers + 1),
        costs_(config.simulation, static_cast<std::uint64_t>(config.seed)),
        delays_(delays_of(config.simulation, static_cast<std::uint64_t>(config.seed))),
        arrivals_(arrivals_of(config.simulation)) {
    if (!config.simulation.failure_times.empty()) {
      failure_times_ = records::read_failure_times(config.simulation.failure_times, "simulation.failure_times");
    }
    if (options.existing == records::Existing::resume) go_on();
    options_.before_steps = [this] { steps_begin_ = std::min(steps_begin_, runtime_->seconds()); };
    options_.before_checkpoint = [this](std::int64_t step) { pass_checkpoint(step); };
  }

  RunResult train(SimulationCost* cost) {
    if (config_.simulation.has_failures() && options_.results == Results::nowhere) {
      throw ConfigError(
          "simulation: a run that starts again after a failure goes on from its checkpoints, but this one writes "
          "nothing; give it a run folder, or remove hours_between_failures and failure_times");
    }
    // All ranks train on views of one set.
    const auto set = job_.open_set(job_.ranks(), config_.data, static_cast<std::uint64_t>(config_.seed));
    require_examples_for_all(config_, (*set)->info().train);
    const Stopwatch watch;
    while (fails()) start_again();
    const bool has_trained = result_.status != RunStatus::already_complete;
    if (config_.simulation.has_failures() && has_trained) conclude();
    if (!arrivals_.empty()) say_arrivals();
    if (options_.results == Results::in_folder && has_trained) {
      records::write_text_file(config_.run_folder() + "/timeline.json", timeline_.json().dump() + "\n");
    }
    if (cost != nullptr) {
      *cost = {.simulated_seconds = now_, .seconds = watch.seconds(), .computations = computations_, .failures = lost_};
    }
    return result_;
  }

 private:
  /// A checkpoint.
  struct Passed {
    std::int64_t step;
    double seconds;  ///< when it was over
  };

  /// Trains until the end, or until a host fails. \return whether one did
  bool fails() {
    const double fails_at = next_failure();
    VirtualRuntime runtime(
        threads_,
        [this](int rank, std::int64_t examples, std::uint64_t number) {
          const double waits = wait_for_start(static_cast<std::size_t>(rank), steps_begin_, runtime_->seconds());
          const double seconds = costs_.seconds(rank, examples, static_cast<std::uint64_t>(lost_.failures), number);
          timeline_.add(rank, runtime_->seconds() + waits, seconds);
          return waits + seconds;
        },
        arrivals_.empty() ? 1e-9 * config_.simulation.nanoseconds_per_update : 0, now_);
    runtime_ = &runtime;
    comm::SimulatedNetwork network = network_of(config_.simulation);
    if (!arrivals_.empty()) network.recorded = &arrivals_;
    network.starts = waits_for_start();
    const bool has_failed = comm::run_simulated(
        runtime, hosts_.ranks_at(now_), network,
        [&](comm::Communicator& group) {
          Log silent(group.rank(), /*terminal=*/false);
          Job part(job_, group, group.is_root() ? job_.log() : silent, &runtime);
          const RunResult own = run(part, group, config_, options_);
          if (group.is_root()) result_ = own;
        },
        fails_at);
    computations_ += runtime.computations();
    if (!has_failed) count_checkpoints();
    now_ = has_failed ? fails_at : runtime.seconds();
    return has_failed;
  }

  /// Compares what failures have cost with the formula.
  void conclude() {
    const SimulationSettings& own = config_.simulation;
    lost_.interval =
        (now_ - lost_.made_again - lost_.restarts) / static_cast<double>(std::max<std::int64_t>(lost_.checkpoints, 1));
    lost_.expected =
        expected_failure_cost(own.checkpoint_seconds, lost_.interval, own.restart_seconds, seconds_between_failures());
    const nlohmann::ordered_json shares = {{"checkpoints", lost_.for_checkpoints / now_},
                                           {"made_again", lost_.made_again / now_},
                                           {"restarts", lost_.restarts / now_},
                                           {"lost", lost_.sum() / now_},
                                           {"expected", lost_.expected}};
    const nlohmann::ordered_json found = {{"failures", lost_.failures},
                                          {"checkpoints", lost_.checkpoints},
                                          {"seconds", now_},
                                          {"seconds_between_checkpoints", lost_.interval},
                                          {"shares", shares},
                                          {"events", events_}};
    records::write_text_file(config_.run_folder() + kFailures, found.dump(2) + "\n");
  }

  /// The mean of the distribution, or of what has happened.
  double seconds_between_failures() const {
    if (failure_times_.empty()) return 3600 * config_.simulation.hours_between_failures;
    return now_ / static_cast<double>(std::max<std::int64_t>(lost_.failures, 1));
  }

  /// As the file says, or exponentially distributed, from the present moment on.
  double next_failure() const {
    if (!failure_times_.empty()) {
      const auto next = std::ranges::upper_bound(failure_times_, now_);
      return next == failure_times_.end() ? std::numeric_limits<double>::infinity() : *next;
    }
    const double mean = 3600 * config_.simulation.hours_between_failures;
    if (mean == 0) return std::numeric_limits<double>::infinity();
    RandomStream random(static_cast<std::uint64_t>(config_.seed), Purpose::simulation,
                        static_cast<std::uint64_t>(lost_.failures), std::numeric_limits<std::uint32_t>::max());
    return now_ + exponential(mean, random);
  }

  /// How long after `seconds` a rank begins. \param begin when the others have begun
  double wait_for_start(std::size_t rank, double begin, double seconds) const {
    return std::max(0.0, begin + delays_[rank] - seconds);
  }
  /// For each rank, how long after the present start.
  std::vector<double> waits_for_start() const {
    const double begin = std::min(steps_begin_, now_);  // it is not known before the first start
    std::vector<double> waits;
    for (std::size_t rank = 0; rank < delays_.size(); ++rank) waits.push_back(wait_for_start(rank, begin, now_));
    return waits;
  }

  /// Continues a run that was interrupted: its failures count, and nobody is late any more.
  void go_on() {
    std::ranges::fill(delays_, 0);
    const nlohmann::ordered_json before = records::read_object(config_.run_folder() + kFailures);
    if (before.empty()) return;
    try {
      began_ = now_ = before.at("seconds");
      lost_ = {.failures = before.at("failures"),
               .checkpoints = before.at("checkpoints"),
               .for_checkpoints = before.at("shares").at("checkpoints").get<double>() * now_,
               .made_again = before.at("shares").at("made_again").get<double>() * now_,
               .restarts = before.at("shares").at("restarts").get<double>() * now_};
      events_ = before.at("events");
    } catch (const nlohmann::json::exception& error) {
      throw CheckpointError(fmt::format("{}{} is damaged: {}; remove it to count failures from here on",
                                        config_.run_folder(), kFailures, error.what()));
    }
  }

  void say_arrivals() {
    job_.log().info(
        fmt::format("{} arrived when those of the recorded run did", count_of(arrivals_.followed(), "message")));
    if (arrivals_.missing() == 0 && arrivals_.late() == 0) return;
    job_.log().warning(
        fmt::format("simulation.message_times: this run is not the recorded one: {} had no recorded time, and {} "
                    "were sent only after they had arrived there",
                    count_of(arrivals_.missing(), "message"), arrivals_.late()));
  }

  /// All ranks stand still for it. What comes after a failure is not written.
  void pass_checkpoint(std::int64_t step) {
    if (const double seconds = config_.simulation.checkpoint_seconds; seconds > 0) runtime_->sleep(seconds);
    if (runtime_->worker() == 0) passed_.push_back({step, runtime_->seconds()});
  }

  /// Notes the checkpoints of this start that were written. \return the last one
  Passed count_checkpoints() {
    const std::int64_t newest = CheckpointFolder(records::checkpoints_of(config_.run_folder()), 1).newest_step();
    Passed last{newest, began_};
    for (const Passed& one : std::exchange(passed_, {})) {
      if (one.step > newest) continue;
      last = one;
      ++lost_.checkpoints;
      lost_.for_checkpoints += config_.simulation.checkpoint_seconds;
    }
    return last;
  }

  void start_again() {
    constexpr int kMostInVain = 10;
    const Passed last = count_checkpoints();
    ++lost_.failures;
    lost_.made_again += now_ - last.seconds;
    in_vain_ = last.step > newest_ ? 0 : in_vain_ + 1;
    newest_ = std::max(newest_, last.step);
    if (in_vain_ == kMostInVain) {
      throw TrainingError(
          fmt::format("{} simulated failures in a row came before a new checkpoint: write them more often "
                      "(checkpoint.every_steps), or let hosts fail less often",
                      kMostInVain));
    }
    options_.existing = records::Existing::resume;
    const double failed_at = now_;
    hosts_.fail(failed_at);
    began_ = now_ = hosts_.first_there_after(failed_at + config_.simulation.restart_seconds);
    lost_.restarts += now_ - failed_at;
    const int ranks = hosts_.ranks_at(now_);
    events_.push_back({{"seconds", failed_at}, {"step", last.step}, {"ranks", ranks}});
    job_.log().info(fmt::format(
        "a host failed after {}; {}{}", duration_text(failed_at),
        last.step < 0 ? "the run starts at its first step" : fmt::format("the run goes on from step {}", last.step),
        ranks < config_.simulation.ranks ? fmt::format(", on {}", count_of(ranks, "rank")) : ""));
  }

  Job& job_;
  const settings::Config& config_;
  RunOptions options_;
  int threads_;
  Hosts hosts_;
  StepCosts costs_;
  std::vector<double> delays_;  ///< by rank: after the first step of the others
  double steps_begin_ = std::numeric_limits<double>::infinity();
  comm::RecordedArrivals arrivals_;
  std::vector<double> failure_times_;  ///< empty: they are drawn
  VirtualRuntime* runtime_ = nullptr;  ///< of the present start
  double began_ = 0, now_ = 0;         ///< simulated seconds: when the present start began; the present one
  std::vector<Passed> passed_;         ///< checkpoints of the present start
  std::int64_t newest_ = -1;
  int in_vain_ = 0;  ///< failures in a row without a new checkpoint
  std::int64_t computations_ = 0;
  FailureCost lost_;
  Timeline timeline_;
  nlohmann::ordered_json events_ = nlohmann::ordered_json::array();  ///< the failures
  RunResult result_;
};

}  // namespace

std::int64_t examples_of_step(const settings::Config& config) {
  return std::max<std::int64_t>(1, config.train.batch_size / workers_of(config));
}

std::optional<settings::Config> settle_simulation(Job& job, settings::Config config) {
  require_simulated(config);
  config.train.threads = 1;
  config.data.holds_all_parts = true;
  config.checkpoint.in_background = false;
  config.communication.record_times = false;
  const data::DatasetInfo data = data::inspect_dataset(config.data);
  require_examples_for_all(config, data.train);
  const settings::Config sized = settle(config, data).config;
  require_memory(sized, data, job.log());
  if (config.simulation.has_speed()) return config;
  constexpr std::int64_t kFirstSteps = 20;
  constexpr double kSeconds = 1;
  Log silent(0, /*terminal=*/false);
  Job part(job, job.ranks(), silent);
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
  config.simulation.microseconds_per_example = rounded(std::max(measured, 1e-6), 2);
  job.log().info(fmt::format("simulation.microseconds_per_example = {:g}, as measured on one core of this machine",
                             config.simulation.microseconds_per_example));
  return config;
}

double expected_failure_cost(double checkpoint, double interval, double restart, double between_failures) {
  return checkpoint / interval + (interval / 2 + restart) / between_failures;
}

RunResult simulate(Job& job, const settings::Config& config, const RunOptions& options, int threads,
                   SimulationCost* cost) {
  return Simulation(job, config, options, threads).train(cost);
}

}  // namespace unisono::session
