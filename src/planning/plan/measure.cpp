#include "plan/measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <thread>
#include <utility>

#include "bench/trial.hpp"
#include "plan/passes.hpp"
#include "unisono/base/clock.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/median.hpp"
#include "unisono/base/random.hpp"
#include "unisono/optim/optimizer.hpp"
#include "unisono/parallel/compressed_sum.hpp"
#include "unisono/parallel/exchange.hpp"
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
constexpr double kSecondsOfSums = 0.5;   // of a round, if one sum is shorter
constexpr int kRounds = 5;               // of which the median counts
/// Of threads that wait for messages: steps of small models take the shortest one, periods of larger ones the longest.
constexpr std::array kWaits = {0.0001, 0.0004, 0.0016, 0.0064, 0.0256};

// Steps ---------------------------------------------------------------------------------------------------------------

settings::Config alone(settings::Config config, int threads, Index examples) {
  config = planning::alone(std::move(config));
  config.device = settings::DeviceChoice::cpu;
  config.train.threads = threads;
  config.train.batch_size = examples;
  return config;
}

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

/// Gradients of some examples beside a thread that waits again and again, for each of some waits. While a message of
/// another rank is awaited: between hosts, a thread of the communicator looks for it, too. Collective.
WaitingCosts time_waiting(comm::Communicator& world, comm::Communicator& rank, const Measured& measured, int threads) {
  constexpr int kTag = 2;
  Log silent(world.rank(), /*terminal=*/false);
  std::byte sent{}, received{};
  const int next = (world.rank() + 1) % world.size(), before = (world.rank() + world.size() - 1) % world.size();
  const Index examples = measured.examples[measured.examples.size() / 2];
  TimedSteps steps(rank, alone(measured.config, threads, examples), measured.inputs, silent);
  double without = 0;
  WaitingCosts costs{.seconds = {kWaits.begin(), kWaits.end()}, .factor = std::vector<double>(kWaits.size())};
  for (int round = 0; round < kTries; ++round) {
    world.barrier();
    without += steps.parts().gradient;
    const auto message = world.start_receive(std::span(&received, 1), before, kTag);
    for (std::size_t i = 0; i < kWaits.size(); ++i) {
      world.barrier();
      const WaitingThread waiting(kWaits[i]);
      costs.factor[i] += steps.parts().gradient;
    }
    comm::RequestPtr sending = world.start_send(std::span(&sent, 1), next, kTag);
    message->wait();
    sending->wait();
  }
  for (double& factor : costs.factor) factor = std::max(world.sum(factor / without) / world.size(), 1.0);
  return costs;
}

// Messages ------------------------------------------------------------------------------------------------------------

/// Bytes of vectors whose sums are timed, about four to a factor of ten.
std::vector<double> sizes_of_sums(double most) {
  std::vector<double> sizes;
  for (double size = 256; size < most; size *= 4) sizes.push_back(size);
  sizes.push_back(most);
  return sizes;
}

SumCurve time_sums(comm::Communicator& group, double most_bytes, Allocator& memory) {
  SumCurve curve;
  Buffer values(static_cast<Index>(most_bytes / sizeof(float)), memory);
  for (const double bytes : sizes_of_sums(most_bytes)) {
    const auto span = values.view().first(static_cast<std::size_t>(bytes / sizeof(float)));
    const auto time_of = [&](int calls) {
      group.barrier();
      const Stopwatch watch;
      for (int i = 0; i < calls; ++i) group.allreduce_sum(span);
      std::array<double, 1> slowest = {watch.seconds() / calls};
      group.allreduce_max(std::span<double>(slowest));
      return slowest[0];
    };
    // Several calls follow each other, as those of steps do: links are slow at first.
    const int calls = static_cast<int>(std::clamp(kSecondsOfSums / std::max(time_of(1), 1e-9), 1.0, 8.0));
    std::vector<double> rounds;
    for (int round = 0; round < kRounds; ++round) rounds.push_back(time_of(calls));
    curve.bytes.push_back(bytes);
    curve.seconds.push_back(std::max(median_of(rounds), 1e-9));
  }
  return curve;
}

/// Each rank of a ring sends to the next one, all at once. The speed is that of what a long message has more than a
/// shorter one: links and buffers take the first part of it faster. \param longest bytes of the exchanges that follow
Link time_ring(comm::Communicator& ring, double longest) {
  constexpr int kTag = 1;
  constexpr std::size_t kShort = 8;
  const auto most = static_cast<std::size_t>(std::clamp(longest, 1e6, 16e6)), less = most / 4;
  const int next = (ring.rank() + 1) % ring.size(), before = (ring.rank() + ring.size() - 1) % ring.size();
  std::vector<std::byte> sent(most), received(most);
  const auto seconds = [&](std::size_t bytes) {
    std::vector<double> rounds;
    for (int round = 0; round < kRounds; ++round) {
      ring.barrier();
      const Stopwatch watch;
      const auto receive = ring.start_receive(std::span(received).first(bytes), before, kTag);
      ring.send(std::span(std::as_const(sent)).first(bytes), next, kTag);
      receive->wait();
      std::array<double, 1> slowest = {watch.seconds()};
      ring.allreduce_max(std::span<double>(slowest));
      rounds.push_back(slowest[0]);
    }
    return median_of(rounds);
  };
  const double latency = seconds(kShort), whole = std::max(seconds(most), 1e-9);
  const double more =
      std::max(whole - seconds(less), whole / 4);  // three quarters of the bytes, however it is disturbed
  return {.microseconds = 1e6 * latency, .megabytes_per_second = 1e-6 * static_cast<double>(most - less) / more};
}

// Encoders ------------------------------------------------------------------------------------------------------------

/// Values that are distributed as gradients roughly are, as many as a bucket has at most: sums are made of buckets.
std::vector<float> drawn_gradient(const comm::Communicator& world, Index floats) {
  const Index bucket = world.bucket_bytes() / Index{sizeof(float)};
  std::vector<float> drawn(static_cast<std::size_t>(std::min(floats, bucket)));
  RandomStream random(1, Purpose::compression);
  for (float& value : drawn) value = random.normal();
  return drawn;
}

/// Nanoseconds of a whole sum for each float, as steps make it: bucket by bucket, by a thread. Collective.
/// \param floats of the gradient \param drawn a bucket's
double time_encoded_sum(comm::Communicator& group, kernels::Encoder& encoder, const std::vector<float>& drawn,
                        Index floats) {
  constexpr std::size_t kMost = 16;  // buckets, whose vectors are more than caches hold
  const std::size_t bucket = drawn.size();
  const std::size_t buckets = std::min((static_cast<std::size_t>(floats) + bucket - 1) / bucket, kMost);
  const auto exchange = parallel::make_encoded_sum(group, encoder);
  std::vector<float> values(buckets * bucket), sum(values.size());
  std::vector<double> rounds;
  parallel::Background background("compressed sums");
  background.start([] {})->wait();  // the thread has started
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < buckets; ++i)
      std::ranges::copy(drawn, values.begin() + static_cast<std::ptrdiff_t>(i * bucket));
    const kernels::EncodingPlace place{.step = static_cast<std::uint64_t>(round)};
    comm::RequestPtr last;
    group.barrier();
    const Stopwatch watch;
    for (std::size_t i = 0; i < buckets; ++i) {
      last = background.start([&, i] {
        exchange->sum(encoder, std::span(values).subspan(i * bucket, bucket),
                      std::span(sum).subspan(i * bucket, bucket), place);
      });
    }
    last->wait();
    rounds.push_back(watch.seconds());
  }
  return std::max(1e9 * group.sum(median_of(rounds)) / group.size() / static_cast<double>(values.size()), 1e-6);
}

EncoderSpeed time_encoder(kernels::Encoder& encoder, const std::string& of, const std::vector<float>& drawn) {
  const auto n = static_cast<Index>(drawn.size());
  std::vector<float> values, sum(drawn.size());
  std::vector<std::byte> message(static_cast<std::size_t>(encoder.most_bytes(n)));
  std::vector<double> encode, add;
  Index bytes = 0;
  for (int round = 0; round < kRounds; ++round) {
    values = drawn;
    const Stopwatch encoding;
    bytes = encoder.encode(values, {.step = static_cast<std::uint64_t>(round)}, message);
    encode.push_back(encoding.seconds());
    const Stopwatch adding;
    encoder.add(std::span(std::as_const(message)).first(static_cast<std::size_t>(bytes)), sum);
    add.push_back(adding.seconds());
  }
  const auto count = static_cast<double>(n);
  return {.of = of,
          .encode_ns = std::max(1e9 * median_of(encode) / count, 1e-6),
          .add_ns = std::max(1e9 * median_of(add) / count, 1e-6),
          .bytes_per_float = static_cast<double>(bytes) / count};
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
  StepSeconds of_all = tries.front();
  for (auto one = tries.begin() + 1; one != tries.end(); ++one) {
    if (together) {
      of_all = {of_all.gradient + one->gradient, of_all.update + one->update, of_all.whole + one->whole};
      continue;
    }
    of_all.whole = std::min(of_all.whole, one->whole);
    if (one->gradient + one->update > of_all.gradient + of_all.update) continue;
    of_all.gradient = one->gradient;
    of_all.update = one->update;
  }
  const double count = together ? static_cast<double>(tries.size()) : 1;
  return {of_all.gradient / count, of_all.update / count, of_all.whole / count};
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

/// Bytes of the largest sum that a whole-batch method makes over ranks: of small models, more than θ has.
double bytes_of_sums_of_methods(const Measured& measured, int ranks) {
  if (!measured.config.whole_batch()) return 0;
  const int states = optim::optimizer_state_vectors(measured.config.optimizer);
  const auto traffic =
      strategies::make_strategy(measured.config.strategy)->traffic(measured.model, ranks, states, measured.data);
  Index most = 0;
  for (const strategies::Exchange& exchange : traffic->exchanges) {
    if (exchange.pattern == strategies::Pattern::sum) most = std::max(most, exchange.floats);
  }
  return sizeof(float) * static_cast<double>(most);
}

/// Collective.
void time_messages(comm::Communicator& world, const Measured& measured, Profile& profile) {
  const auto whole = static_cast<double>(sizeof(float)) * static_cast<double>(measured.model.layout().size());
  double bytes = std::min(whole, std::max(1e6, profile.memory_limit() / 8));
  bytes = std::max(bytes, bytes_of_sums_of_methods(measured, world.size()));
  const auto host = world.split(world.node(), world.rank());
  if (host->size() > 1) {
    profile.sums_in_host = time_sums(*host, bytes, host->shared_allocator());
    profile.sums_of_layers = time_sums(*host, bytes, page_allocator());
    profile.in_host = time_ring(*host, bytes);
  }
  if (profile.hosts > 1) {
    profile.sums_of_all = time_sums(world, bytes, world.shared_allocator());
    const auto same_place = world.split(world.node_rank(), world.rank());
    if (world.node_rank() == 0) profile.between_hosts = time_ring(*same_place, bytes);
    world.barrier();
  }
  const std::vector<float> drawn = drawn_gradient(world, measured.model.layout().size());
  for (const Way& way : measured.ways) {
    const auto traffic = strategies::make_strategy(way.config.strategy)->traffic(measured.model, 2, 0, measured.data);
    if (!traffic || !traffic->encoder) continue;
    EncoderSpeed speed = time_encoder(*traffic->encoder, way.name, drawn);
    const Index floats = measured.model.layout().size();
    if (host->size() > 1) speed.in_host_ns = time_encoded_sum(*host, *traffic->encoder, drawn, floats);
    if (profile.hosts > 1) speed.of_all_ns = time_encoded_sum(world, *traffic->encoder, drawn, floats);
    profile.encoders.push_back(std::move(speed));
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
  time_messages(world, measured, profile);
  return profile;
}

}  // namespace unisono::planning
