#include "run/summary.hpp"

#include <catch2/catch.hpp>

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
