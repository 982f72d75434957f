#include "unisono/session/simulate.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "expect.hpp"
#include "small_runs.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::session {
namespace {

using Catch::Matchers::Contains;
using testing::perceptron;
using testing::quiet;
using testing::ScratchFolder;

using Parameters = std::vector<float>;
using Overrides = std::vector<std::string>;

Overrides with(Overrides all, const Overrides& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

RunResult simulated(const settings::Config& config, Parameters* parameters, int threads = 1,
                    SimulationCost* cost = nullptr) {
  const auto world = comm::make_self_communicator();
  Log log(0, false);
  Job job(*world, log);
  return simulate(job, *settle_simulation(job, config), quiet(parameters), threads, cost);
}

void refused_simulation(const settings::Config& config, const std::string& message) {
  CHECK_THROWS_WITH(simulated(config, nullptr), Contains(message));
}

const Overrides kThree = {"simulation.ranks=3", "simulation.microseconds_per_example=100"};

TEST_CASE("simulated ranks that train in step end with the bits of real ones", "[simulate]") {
  const ScratchFolder folder;
  const std::string points = testing::make_points(folder);
  for (const Overrides& strategy :
       std::vector<Overrides>{{"strategy.kind=\"allreduce\""},
                              {"strategy.kind=\"averaging\"", "strategy.period=2"},
                              {"strategy.kind=\"gossip\""},
                              {"strategy.kind=\"gradient_sharing\"", "strategy.staleness_bound=0"},
                              {"strategy.kind=\"parameter_server\"", "strategy.consistency=\"synchronous\""}}) {
    INFO(strategy.front());
    Parameters real, imitated;
    comm::run_as_threads(3, [&](comm::Communicator& world) {
      Log log(world.rank(), false);
      Job job(world, log);
      const RunResult result =
          run(job, world, perceptron(points, strategy), quiet(world.rank() == 0 ? &real : nullptr));
      EXPECT(result.status == RunStatus::complete);
    });
    CHECK(simulated(perceptron(points, with(strategy, kThree)), &imitated).status == RunStatus::complete);
    CHECK(real == imitated);
  }
}

TEST_CASE("a simulation gives the same run again, on any number of threads", "[simulate]") {
  const ScratchFolder folder;
  const std::string points = testing::make_points(folder);
  for (const Overrides& strategy : std::vector<Overrides>{
           {"strategy.kind=\"parameter_server\"", "strategy.servers=2"},
           {"strategy.kind=\"parameter_server\"", "strategy.consistency=\"bounded\"", "strategy.staleness=1"},
           {"strategy.kind=\"elastic_averaging\"", "strategy.period=2"},
           {"strategy.kind=\"gossip_async\""},
           {"strategy.kind=\"gradient_sharing\""}}) {
    INFO(strategy.front());
    const settings::Config config =
        perceptron(points, with(strategy, {"simulation.ranks=6", "simulation.microseconds_per_example=100",
                                           "simulation.speed_spread=0.5", "simulation.step_times=\"lognormal\"",
                                           "simulation.step_spread=0.3", "simulation.ranks_per_host=2"}));
    Parameters first, again, on_three, other;
    SimulationCost cost, other_cost;
    simulated(config, &first, 1, &cost);
    simulated(config, &again, 1);
    simulated(config, &on_three, 3, &other_cost);
    CHECK(first == again);
    CHECK(first == on_three);
    CHECK(cost.simulated_seconds == other_cost.simulated_seconds);
    CHECK(cost.computations == other_cost.computations);
    settings::Config slower = config;
    slower.simulation.slow_share = 0.5;
    slower.simulation.slow_factor = 20;
    simulated(slower, &other, 1, &other_cost);
    CHECK(other_cost.simulated_seconds > 1.5 * cost.simulated_seconds);
    CHECK(first != other);  // other gradients are late
  }
}

TEST_CASE("simulated seconds are those of the slowest rank's computations, and of the messages", "[simulate]") {
  const ScratchFolder folder;
  const settings::Config config =
      perceptron(testing::make_points(folder),
                 {"simulation.ranks=2", "simulation.microseconds_per_example=1000", "simulation.link_microseconds=1e-3",
                  "simulation.link_mbit=1e9", "train.batch_size=8"});
  SimulationCost cost;
  const RunResult result = simulated(config, nullptr, 1, &cost);
  // 10 steps of 4 examples on each rank.
  CHECK(result.seconds.compute == Approx(10 * 4 * 1e-3).epsilon(1e-6));
  CHECK(cost.simulated_seconds == Approx(10 * 4 * 1e-3).epsilon(0.01));
  CHECK(cost.computations == 20);
}

TEST_CASE("updates take simulated time, whatever the way of training", "[simulate]") {
  const ScratchFolder folder;
  const std::string points = testing::make_points(folder);
  for (const std::string kind : {"allreduce", "averaging", "gossip", "gossip_async", "gradient_sharing",
                                 "parameter_server", "elastic_averaging"}) {
    INFO(kind);
    Parameters parameters;
    const auto seconds = [&](const std::string& nanoseconds) {
      SimulationCost cost;
      simulated(
          perceptron(points, {"simulation.ranks=2", "simulation.microseconds_per_example=1", "train.batch_size=8",
                              "simulation.link_microseconds=1e-3", "simulation.link_mbit=1e9",
                              "simulation.nanoseconds_per_update=" + nanoseconds, "strategy.kind=\"" + kind + "\""}),
          &parameters, 1, &cost);
      return cost.simulated_seconds;
    };
    // 10 steps of both ranks, each of which updates half of the parameters at least.
    const double added = seconds("1e6") - seconds("0"), of_update = 1e-3 * static_cast<double>(parameters.size());
    CHECK(added > 0.99 * 10 * of_update / 2);
    CHECK(added < 1.01 * 20 * of_update);
  }
}

TEST_CASE("sums of the last layers begin while the first ones still compute", "[simulate]") {
  const ScratchFolder folder;
  const std::string points = testing::make_points(folder);
  const auto waited_in_steps = [&](double microseconds, const std::string& buckets) {
    const settings::Config config = perceptron(
        points,
        {"simulation.ranks=2", "simulation.microseconds_per_example=250", "train.batch_size=8",
         "simulation.link_mbit=1e9", "simulation.nanoseconds_per_update=0", "train.report_every_steps=1000",
         "simulation.link_microseconds=" + std::to_string(microseconds), "communication.bucket_bytes=" + buckets});
    SimulationCost cost;
    const RunResult result = simulated(config, nullptr, 1, &cost);
    CHECK(result.seconds.compute == Approx(10 * 1e-3));
    return result.seconds.exposed_communication / 10;
  };
  // 1 ms for the 4 examples of a rank. Short sums are one message to the other host: they take the latency, and the
  // sums of both layers follow each other. Where the latency is short, the second layer's is over in time.
  CHECK(waited_in_steps(50, "128") == Approx(waited_in_steps(50, "1000000")));
  // 2·2·6 flops forward and as many for the weights; 2·6·2 forward, and twice that backward.
  const double second_ready = 1.0 / 3 + 2.0 / 3 * 72 / (72 + 48);
  const double at_once = 1e-3 + 2e-3, in_turn = 1e-3 * second_ready + 2 * 2e-3;
  CHECK(waited_in_steps(2000, "128") - waited_in_steps(2000, "1000000") == Approx(in_turn - at_once).epsilon(0.02));
}

TEST_CASE("ranks that are equally fast wait for messages, not for each other", "[simulate]") {
  const ScratchFolder folder;
  const settings::Config config = perceptron(
      testing::make_points(folder),
      with(kThree, {"simulation.link_mbit=1", "train.report_every_steps=1000", "simulation.nanoseconds_per_update=0"}));
  const RunResult result = simulated(config, nullptr);
  CHECK(result.seconds.exposed_communication > 20 * result.seconds.straggler_wait);
  CHECK(result.seconds.exposed_communication > 0);
}

TEST_CASE("a run whose hosts fail ends with the bits of one without failures, some time later", "[simulate]") {
  const ScratchFolder folder;
  const std::string points = testing::make_points(folder);
  const auto world = comm::make_self_communicator();
  Log log(0, false);
  Job job(*world, log);
  RunOptions options;
  options.watching = Watching::none;
  Parameters whole, failed;
  // 50 steps of 40 s, 2000 s in all, and a failure every 250.
  const Overrides keys = {"simulation.microseconds_per_example=1e7",
                          "simulation.checkpoint_seconds=3",
                          "simulation.restart_seconds=20",
                          "checkpoint.every_steps=2",
                          "checkpoint.every_epochs=0",
                          "train.epochs=10",
                          "simulation.nanoseconds_per_update=0",
                          "train.report_every_steps=7"};
  const auto made = [&](const std::string& name, const Overrides& more, Parameters& parameters) {
    settings::Config config = perceptron(points, with(with(keys, more), {"output=\"" + folder.path(name) + "\""}));
    options.parameters = &parameters;
    SimulationCost cost;
    CHECK(simulate(job, *settle_simulation(job, config), options, 1, &cost).status == RunStatus::complete);
    return cost;
  };
  for (const Overrides& ranks :
       std::vector<Overrides>{{"simulation.ranks=2"},
                              {"simulation.ranks=1", "train.batch_size=4"},
                              {"simulation.ranks=2", "strategy.kind=\"averaging\"", "strategy.period=2"}}) {
    INFO(ranks.back());
    const std::string name = std::to_string(ranks.size());
    const SimulationCost without = made("whole" + name, ranks, whole);
    CHECK(without.failures.failures == 0);
    const SimulationCost with_failures =
        made("failed" + name, with(ranks, {"simulation.hours_between_failures=0.07"}), failed);
    CHECK(whole == failed);
    const FailureCost& lost = with_failures.failures;
    CHECK(lost.failures >= 3);
    CHECK(lost.restarts == Approx(20.0 * static_cast<double>(lost.failures)));
    CHECK(lost.for_checkpoints == Approx(3.0 * static_cast<double>(lost.checkpoints)));
    CHECK(lost.made_again > 0);
    CHECK(lost.made_again < 100.0 * static_cast<double>(lost.failures));  // two steps, and a checkpoint
    CHECK(with_failures.computations > without.computations);
    // What is not lost is what the run without failures takes; messages are short.
    const double useful = with_failures.simulated_seconds - lost.sum();
    CHECK(useful == Approx(without.simulated_seconds - 3.0 * static_cast<double>(lost.checkpoints)).epsilon(1e-3));
  }
}

TEST_CASE("a run that never reaches a checkpoint between failures is given up", "[simulate]") {
  const ScratchFolder folder;
  const std::string points = testing::make_points(folder);
  const auto world = comm::make_self_communicator();
  Log log(0, false);
  Job job(*world, log);
  RunOptions options;
  options.watching = Watching::none;
  const settings::Config config = perceptron(
      points, with(kThree, {"simulation.microseconds_per_example=1e7", "checkpoint.every_epochs=0",
                            "simulation.hours_between_failures=0.01", "output=\"" + folder.path("run") + "\""}));
  CHECK_THROWS_WITH(simulate(job, config, options, 1),
                    Contains("10 simulated failures in a row came before a new checkpoint"));
  refused_simulation(perceptron(points, with(kThree, {"simulation.hours_between_failures=1"})), "give it a run folder");
  refused_simulation(perceptron(points, with(kThree, {"checkpoint.hours_between_failures=1"})),
                     "simulated hosts do not fail");
}

TEST_CASE("the formula of what failures cost", "[simulate]") {
  // 1 s for a checkpoint every 85 s, 70 s until the ranks train again, a failure every hour.
  CHECK(expected_failure_cost(1, 85, 70, 3600) == Approx(1.0 / 85 + (42.5 + 70) / 3600));
}

TEST_CASE("what an example takes is measured where the config leaves it open", "[simulate]") {
  const ScratchFolder folder;
  const auto world = comm::make_self_communicator();
  Log log(0, false);
  Job job(*world, log);
  const settings::Config config = perceptron(testing::make_points(folder), {"simulation.ranks=4"});
  const settings::Config settled = *settle_simulation(job, config);
  CHECK(settled.simulation.microseconds_per_example > 0);
  CHECK(settled.simulation.microseconds_per_example < 1e5);
}

TEST_CASE("what cannot be simulated is refused", "[simulate]") {
  const ScratchFolder folder;
  const std::string points = testing::make_points(folder);
  const auto config = [&](const Overrides& overrides) { return perceptron(points, with(kThree, overrides)); };
  refused_simulation(perceptron(points), "simulation.ranks: how many ranks are simulated?");
  refused_simulation(config({"strategy.kind=\"hogwild\""}), "strategy.kind = \"hogwild\" cannot be simulated");
  refused_simulation(config({"replica.stages=3"}), "simulated ranks hold whole models");
  refused_simulation(config({"fault.emulated_seconds=0.1"}), "remove [fault]");
  refused_simulation(config({"device=\"auto\""}), "simulated ranks compute on CPUs");
  refused_simulation(config({"simulation.ranks=100"}), "100 workers for 40 training examples");
  refused_simulation(config({"simulation.ranks=20", "strategy.kind=\"averaging\"", "data.partition=\"fixed\""}),
                     "train.batch_size");
}

TEST_CASE("settings of a simulation that contradict each other are refused", "[simulate]") {
  const ScratchFolder folder;
  const std::string points = testing::make_points(folder);
  const auto parse = [&](const std::string& key) { perceptron(points, with(kThree, {key})); };
  CHECK_THROWS_WITH(parse("simulation.slow_share=0.5"), Contains("slow_share and slow_factor work together"));
  CHECK_THROWS_WITH(parse("simulation.step_spread=0.5"), Contains("step_spread"));
  CHECK_THROWS_WITH(perceptron(points, with(kThree, {"simulation.step_times=\"pareto\"", "simulation.step_spread=1"})),
                    Contains("step_spread"));
  CHECK_THROWS_WITH(parse("simulation.link_mbit=0"), Contains("link_mbit"));
  CHECK_THROWS_WITH(parse("simulation.ranks=-1"), Contains("ranks"));
}

}  // namespace
}  // namespace unisono::session
