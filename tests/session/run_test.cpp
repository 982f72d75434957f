#include "unisono/session/run.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "expect.hpp"
#include "small_runs.hpp"

namespace unisono::session {
namespace {

using testing::perceptron;
using testing::quiet;
using testing::ScratchFolder;

using Parameters = std::vector<float>;

RunResult run_alone(const settings::Config& config, const RunOptions& options, const JobOptions& job_options = {}) {
  const auto world = comm::make_self_communicator();
  Log log(0, false);
  Job job(*world, log, job_options);
  return run(job, *world, config, options);
}

std::set<std::string> files_in(const std::string& folder) {
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) files.insert(entry.path().string());
  return files;
}

TEST_CASE("a run that writes nowhere ends with the parameters of one that writes, and leaves no file", "[run]") {
  const ScratchFolder folder;
  const settings::Config config = perceptron(testing::make_points(folder), {"output=\"" + folder.path("run") + "\""});
  const auto before = files_in(folder.path());
  Parameters nowhere, in_folder;
  const RunResult result = run_alone(config, quiet(&nowhere));
  CHECK(result.status == RunStatus::complete);
  CHECK(result.epochs == 2);
  CHECK(result.steps == 10);
  CHECK(result.examples == 80);
  CHECK(result.evaluations.size() == 2);
  CHECK(files_in(folder.path()) == before);
  RunOptions writes = quiet(&in_folder);
  writes.results = Results::in_folder;
  CHECK(run_alone(config, writes).status == RunStatus::complete);
  CHECK(std::filesystem::exists(folder.path("run/summary.json")));
  CHECK(nowhere == in_folder);
  writes.existing = records::Existing::resume;
  const RunResult again = run_alone(config, writes);
  CHECK(again.status == RunStatus::already_complete);
  CHECK(again.steps == 10);
}

TEST_CASE("what needs a folder is refused where there is none", "[run]") {
  const ScratchFolder folder;
  const std::string set = testing::make_points(folder);
  RunOptions options = quiet();
  options.existing = records::Existing::resume;
  CHECK_THROWS_AS(run_alone(perceptron(set), options), ConfigError);
  const settings::Config recorded =
      perceptron(set, {"strategy.kind=\"parameter_server\"", "strategy.servers=1", "strategy.record=true"});
  comm::run_as_threads(2, [&](comm::Communicator& world) {
    Log log(world.rank(), false);
    Job job(world, log);
    bool refused = false;
    try {
      run(job, world, recorded, quiet());
    } catch (const ConfigError&) {
      refused = true;
    }
    EXPECT(refused);
  });
}

TEST_CASE("early stopping brings back the best weights, in a folder or in memory", "[run]") {
  const ScratchFolder folder;
  const settings::Config config =
      perceptron(testing::make_points(folder), {"output=\"" + folder.path("run") + "\"", "train.epochs=40",
                                                "optimizer.learning_rate=2.0", "train.early_stopping.patience=2"});
  Parameters nowhere, in_folder;
  const RunResult result = run_alone(config, quiet(&nowhere));
  CHECK(result.status == RunStatus::complete);
  REQUIRE(result.stopped_early);
  CHECK(result.best.step < result.steps);
  RunOptions writes = quiet(&in_folder);
  writes.results = Results::in_folder;
  const RunResult written = run_alone(config, writes);
  CHECK(written.best.step == result.best.step);
  CHECK(written.evaluations.at(data::Split::test)[0].value == result.evaluations.at(data::Split::test)[0].value);
  CHECK(nowhere == in_folder);
}

TEST_CASE("a run that diverges ends with a status, on every rank", "[run]") {
  const ScratchFolder folder;
  const settings::Config config = perceptron(testing::make_points(folder), {"optimizer.learning_rate=1e30"});
  comm::run_as_threads(2, [&](comm::Communicator& world) {
    Log log(world.rank(), false);
    Job job(world, log);
    const RunResult result = run(job, world, config, quiet());
    EXPECT(result.status == RunStatus::diverged);
    EXPECT(result.message.starts_with("small diverged: "));
    EXPECT(result.message.find("lower optimizer.learning_rate") != std::string::npos);
    EXPECT(result.message.find("checkpoint") == std::string::npos);  // there were none to be kept
    EXPECT(run(job, world, perceptron(config.data.path), quiet()).status == RunStatus::complete);
  });
}

TEST_CASE("one rank's wish stops a run on all, and it can be resumed", "[run]") {
  const ScratchFolder folder;
  const settings::Config config =
      perceptron(testing::make_points(folder), {"output=\"" + folder.path("run") + "\"", "train.epochs=4"});
  comm::run_as_threads(2, [&](comm::Communicator& world) {
    Log log(world.rank(), false);
    Job job(world, log);
    Parameters whole, resumed;
    RunOptions options = quiet(&whole);
    EXPECT(run(job, world, config, options).status == RunStatus::complete);
    options.results = Results::in_folder;
    options.parameters = &resumed;
    options.stop = [&world] { return world.rank() == 1; };
    const RunResult stopped = run(job, world, config, options);
    EXPECT(stopped.status == RunStatus::stopped);
    EXPECT(stopped.steps == 1);  // the first one at which they ask each other
    options.stop = {};
    options.existing = records::Existing::resume;
    EXPECT(run(job, world, config, options).status == RunStatus::complete);
    EXPECT(resumed == whole);
  });
}

TEST_CASE("a signal stops the runs of a job that heeds signals", "[run]") {
  const ScratchFolder folder;
  const settings::Config config = perceptron(testing::make_points(folder));
  const auto world = comm::make_self_communicator();
  Log log(0, false);
  Job job(*world, log, {.heeds_signals = true});
  CHECK(run(job, *world, config, quiet()).status == RunStatus::complete);
  std::raise(SIGUSR1);
  CHECK(job.received_signal() == SIGUSR1);
  for (int i = 0; i < 2; ++i) CHECK(run(job, *world, config, quiet()).status == RunStatus::interrupted);
}

/// A second passes whenever somebody looks.
class LookedAtClock final : public Runtime {
 public:
  double seconds() const override { return static_cast<double>(++looks_); }

 private:
  mutable std::atomic<std::int64_t> looks_{0};
};

TEST_CASE("a run's seconds are those of the clock that its job was given", "[run]") {
  const ScratchFolder folder;
  const settings::Config config = perceptron(testing::make_points(folder));
  const LookedAtClock clock;
  const double before = clock.seconds();
  const RunResult result = run_alone(config, quiet(), {.runtime = clock});
  const double all = clock.seconds() - before, counted = result.seconds.sum();
  CHECK(counted == std::floor(counted));
  CHECK(counted > 4.0 * static_cast<double>(result.steps));  // input, compute, update, and more
  CHECK(counted < all);
  CHECK(result.seconds.compute >= static_cast<double>(result.steps));
  const double training = counted - result.seconds.evaluation - result.seconds.checkpoint;
  CHECK(result.examples_per_second == Approx(static_cast<double>(result.examples) / training));
}

class StandingClock final : public Runtime {
 public:
  double seconds() const override { return 7; }
};

TEST_CASE("no time passes for any strategy while the clock stands", "[run]") {
  const ScratchFolder folder;
  const std::string points = testing::make_points(folder), ratings = testing::make_ratings(folder);
  const StandingClock clock;
  const std::vector<settings::Config> configs = {
      perceptron(points), perceptron(points, {"strategy.kind=\"averaging\"", "strategy.period=2"}),
      perceptron(points, {"strategy.kind=\"parameter_server\"", "strategy.consistency=\"synchronous\""}),
      perceptron(points, {"strategy.kind=\"elastic_averaging\"", "strategy.period=2"}),
      testing::factorization(ratings)};
  for (const settings::Config& config : configs) {
    comm::run_as_threads(2, [&](comm::Communicator& world) {
      Log log(world.rank(), false);
      Job job(world, log, {.runtime = clock});
      const RunResult result = run(job, world, config, quiet());
      EXPECT(result.status == RunStatus::complete);
      EXPECT(result.seconds.sum() == 0);
    });
  }
}

}  // namespace
}  // namespace unisono::session
