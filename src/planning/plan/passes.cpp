#include "plan/passes.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "unisono/base/clock.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/optim/optimizer.hpp"
#include "unisono/session/method.hpp"
#include "unisono/session/placement.hpp"

// How long a pass of a whole-batch method takes:
//   a rank's portions of the training set + the method's work on its vectors / P + messages
// A portion is as measured, with as many ranks at work as there will be: its gradient, and adding that to the others.
// Nobody computes while shards of vectors are under way. A line search that evaluates the gradient again, and products
// with the Hessian, take more passes: how many is not known before.
namespace unisono::planning {
namespace {

constexpr double kSecondsOfPortions = 0.5;  // for which portions are timed
constexpr double kFloatsOfAdding = 3;       // that an addition to a vector touches, for each element
constexpr double kFloatsOfPortion = 4;      // that clearing a gradient and adding it to another one touches

/// The portions of a rank, which are timed one after the other.
class TimedPortions {
 public:
  TimedPortions(comm::Communicator& rank, const Measured& measured, data::Dataset& data, int threads, Log& log)
      : config_(with_threads(measured.config, threads)),
        place_(rank),
        parts_({rank, place_, log}, config_, measured.inputs, &data),
        objective_(session::make_objective(parts_, config_, data)),
        gradient_(parts_.model->layout().size(), parts_.backend->memory()),
        sum_(gradient_.size(), parts_.backend->memory()) {
    parts_.initialise(static_cast<std::uint64_t>(config_.seed));
  }

  int count() const { return objective_->portions(); }
  /// Of these, one after the other, for some time.
  double mean_seconds(const comm::Slice& portions) {
    const Stopwatch watch;
    int computed = 0;
    for (Index next = portions.first; computed < 2 || watch.seconds() < kSecondsOfPortions; ++computed, ++next) {
      if (next == portions.last) next = portions.first;
      compute(static_cast<int>(next));
    }
    return watch.seconds() / computed;
  }
  void add() { parts_.backend->axpby(1, gradient_.view(), 1, sum_.view()); }

 private:
  static settings::Config with_threads(settings::Config config, int threads) {
    config.device = settings::DeviceChoice::cpu;
    config.train.threads = threads;
    return config;
  }
  void compute(int portion) {
    kernels::LossSums losses;
    parts_.backend->clear(gradient_.view());
    objective_->add_gradient(portion, parts_.state(), gradient_.view(), losses, [](Index) { return true; });
    add();
  }

  settings::Config config_;
  session::NodePlace place_;
  session::ModelParts parts_;
  std::unique_ptr<models::Objective> objective_;
  Buffer gradient_, sum_;
};

}  // namespace

PortionSeconds time_portions(comm::Communicator& world, const Measured& measured, int threads) {
  Log silent(world.rank(), /*terminal=*/false);
  const auto rank = world.alone();
  session::SharedDataset data(world, measured.config.data, static_cast<std::uint64_t>(measured.config.seed));
  TimedPortions portions(*rank, measured, *data, threads, silent);
  const comm::Slice own =
      comm::slice_of(portions.count(), world.rank() % portions.count(), std::min(world.size(), portions.count()));
  const auto time = [&](bool active, const comm::Slice& some) {
    std::array<double, 1> slowest = {0};
    world.barrier();
    if (active) {
      portions.mean_seconds(some);  // reads what is not in memory
      slowest[0] = std::max(portions.mean_seconds(some), 1e-9);
    }
    world.barrier();
    world.allreduce_max(std::span<double>(slowest));
    return slowest[0];
  };
  PortionSeconds seconds{.one_rank = time(world.is_root(), {0, portions.count()})};
  seconds.one_host = world.node_size() == 1 ? seconds.one_rank : time(world.node() == 0, own);
  seconds.all_hosts = world.node_size() == world.size() ? seconds.one_host : time(true, own);
  seconds.examples = static_cast<double>(measured.data.train) / portions.count();
  constexpr int kAdditions = 10;
  const Stopwatch watch;
  for (int i = 0; i < kAdditions; ++i) portions.add();
  const double floats = kFloatsOfAdding * kAdditions * static_cast<double>(measured.model.layout().size());
  seconds.float_ns = std::max(1e9 * watch.seconds() / floats, 1e-6);
  return seconds;
}

Prediction predict_pass(const Planned& planned, const Way& way, const Ranks& ranks) {
  const PortionSeconds& portions = planned.profile.portions;
  if (portions.one_rank == 0) {
    throw ConfigError("the profile does not say how long portions of the training set take; measure with this config");
  }
  const auto strategy = strategies::make_strategy(way.config.strategy);
  const int states = optim::optimizer_state_vectors(way.config.optimizer);
  const int count = strategy->portions(planned.model, planned.data);
  const auto traffic = strategy->traffic(planned.model, ranks.all(), states, planned.data);
  const double vectors = traffic->touched_floats * ranks.all();  // of all ranks' shards
  const Network network(planned.profile, ranks, planned.measured_links);
  // Portions may be of other sizes than those which were timed: adding up their gradients takes the same time.
  const double adding =
      1e-9 * portions.float_ns * kFloatsOfPortion * static_cast<double>(planned.model.layout().size());
  const double size = static_cast<double>(planned.data.train) / count / portions.examples;
  const auto computing = [&](const Ranks& those) {
    const double measured = measured_on(those, portions.one_rank, portions.one_host, portions.all_hosts);
    const double of_portion = std::max(measured - adding, 0.0) * size + std::min(adding, measured);
    const double most = (count + those.all() - 1) / those.all();
    return ComputingSeconds{.gradient = most * of_portion, .update = 1e-9 * portions.float_ns * vectors / those.all()};
  };
  Prediction made;
  made.ranks = ranks;
  made.makes_serial_steps = traffic->makes_serial_steps;
  made.examples = planned.data.train / ranks.all();
  made.gradient = computing(ranks).gradient;
  made.update = computing(ranks).update;
  for (const strategies::Exchange& exchange : traffic->exchanges) {
    const ExchangeCost cost = network.cost(exchange, sizeof(float) * static_cast<double>(exchange.floats));
    made.add(cost, exchange.every_steps, cost.link / exchange.every_steps);
  }
  const ComputingSeconds alone = computing({1, 1});
  made.examples_per_second = static_cast<double>(planned.data.train) / made.seconds();
  made.efficiency = (alone.gradient + alone.update) / made.seconds() / ranks.all();
  made.memory_bytes = memory_of_rank(planned, way.config, ranks);
  return made;
}

}  // namespace unisono::planning
