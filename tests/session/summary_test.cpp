#include "run/summary.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "unisono/session/run_checks.hpp"

namespace unisono::session {
namespace {

using Catch::Matchers::Contains;

Summary summary_of(Ending ending, double seconds) {
  Summary summary;
  summary.ending = ending;
  summary.epochs = 2, summary.steps = 20;
  summary.seconds.compute = 0.7 * seconds, summary.seconds.checkpoint = 0.3 * seconds;
  return summary;
}

TEST_CASE("an interrupted run says how it is continued", "[summary]") {
  settings::Config config;
  config.name = "a";
  CHECK_THAT(to_text(summary_of(Ending::interrupted, 60), config),
             Contains("a: interrupted after 2 epochs, 20 steps, in 1:00; continue with --resume\n"));
  CHECK_THAT(to_text(summary_of(Ending::complete, 60), config),
             Contains("a: complete after 2 epochs, 20 steps, in 1:00\n"));
}

TEST_CASE("advice is given on what takes long, in runs of more than a moment", "[summary]") {
  CHECK_THAT(to_text(summary_of(Ending::complete, 60), {}), Contains("  advice      writing checkpoints takes long"));
  CHECK_THAT(to_text(summary_of(Ending::complete, 0.5), {}), !Contains("advice"));
}

TEST_CASE("a set that is in memory already is not advised to be there", "[summary]") {
  Summary summary = summary_of(Ending::complete, 60);
  std::swap(summary.seconds.checkpoint, summary.seconds.input);
  CHECK_THAT(to_text(summary, {}), Contains("  advice      ranks waited for batches to be prepared"));
  summary.resident = false;
  CHECK_THAT(to_text(summary, {}), Contains("data.reader = \"resident\" would help"));
}

TEST_CASE("a run whose workers go at their own pace tells the steps and examples of each", "[summary]") {
  Summary summary = summary_of(Ending::complete, 60);
  settings::Config config;
  CHECK_THAT(to_text(summary, config), !Contains("workers"));
  CHECK(!to_json(summary, config).contains("worker_steps"));
  summary.worker_steps = {1569, 4, 3};
  CHECK_THAT(to_text(summary, config), Contains("  workers     1,569, 4 and 3 steps\n"));
  CHECK(to_json(summary, config)["worker_steps"] == summary.worker_steps);
  CHECK(!to_json(summary, config).contains("worker_examples"));
  summary.worker_examples = {2000, 128, 96};
  CHECK_THAT(to_text(summary, config),
             Contains("  workers     1,569, 4 and 3 steps, on 2,000, 128 and 96 different examples\n"));
  CHECK(to_json(summary, config)["worker_examples"] == summary.worker_examples);
}

TEST_CASE("a worker with less than half of its share of the steps is warned of", "[summary]") {
  CHECK(warning_on_shares({}).empty());
  CHECK(warning_on_shares({7}).empty());
  CHECK(warning_on_shares({0, 0}).empty());  // a run that has made no step
  CHECK(warning_on_shares({150, 50}).empty());
  CHECK_THAT(warning_on_shares({151, 49}), Contains("worker 1 made 49 of 200 steps, less than half of a share of 100"));
  CHECK_THAT(warning_on_shares({569, 4, 3}),
             Contains("worker 2 made 3 of 576 steps, less than half of a share of 192"));
}

TEST_CASE("a rank's share of a step follows the whole micro-batches that it takes", "[summary]") {
  settings::Config config;
  config.train.batch_size = 50;
  CHECK(local_batch_text(config, 1) == "50 of 50 examples");
  CHECK(local_batch_text(config, 2) == "25 of 50 examples");
  CHECK(local_batch_text(config, 3) == "16 or 17 of 50 examples");
  config.train.micro_batches = 4;  // of 12, 13, 12 and 13 examples
  CHECK(local_batch_text(config, 2) == "25 of 50 examples");
  CHECK(local_batch_text(config, 3) == "12 to 25 of 50 examples");
  CHECK(local_batch_text(config, 4) == "12 or 13 of 50 examples");
  CHECK(local_batch_text(config, 5) == "10 of 50 examples");  // each micro-batch is sliced
  config.strategy.kind = "averaging";                         // each rank divides its own part
  CHECK(local_batch_text(config, 3) == "16 or 17 of 50 examples");
}

}  // namespace
}  // namespace unisono::session
