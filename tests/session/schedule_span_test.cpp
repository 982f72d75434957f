#include "run/resume.hpp"

#include <catch2/catch.hpp>

#include "unisono/base/errors.hpp"
#include "value_of.hpp"

namespace unisono::session {
namespace {

using Catch::Matchers::Contains;

constexpr std::int64_t kEpochSteps = 10;

settings::Config scheduled_config(std::int64_t epochs, std::int64_t schedule_epochs,
                                  const std::string& kind = "linear") {
  settings::Config config;
  config.name = "run";
  config.optimizer.learning_rate = 1;
  config.train.epochs = epochs;
  config.schedule.kind = value_of(kind, optim::kScheduleKinds);
  config.schedule.epochs = schedule_epochs;
  return config;
}

/// As an unisono without `schedule.epochs` wrote it.
const std::string kOld = "name = \"run\"\n\n[schedule]\nkind = \"linear\"\n\n[train]\nepochs = 2\n";

TEST_CASE("another length of the run must say what becomes of its falling rate", "[schedule_span]") {
  const ResumedAt at{.config = kOld, .step = 10, .steps_per_epoch = kEpochSteps};
  CHECK_NOTHROW(require_chosen_span(scheduled_config(2, 0), at));
  CHECK_NOTHROW(require_chosen_span(scheduled_config(4, 2), at));
  CHECK_NOTHROW(require_chosen_span(scheduled_config(4, 4), at));
  CHECK_NOTHROW(require_chosen_span(scheduled_config(4, 0, "constant"), at));
  CHECK_NOTHROW(require_chosen_span(scheduled_config(4, 0, "step"), at));
  CHECK_THROWS_AS(require_chosen_span(scheduled_config(4, 0), at), ConfigError);
  // 1 − 10/19 and 1 − 10/39
  CHECK_THROWS_WITH(require_chosen_span(scheduled_config(4, 0), at),
                    Contains("schedule.epochs=2 to continue from 0.474 as planned (it stays at 0 after epoch 2)") &&
                        Contains("schedule.epochs=4 to let it fall over 4 epochs and continue from 0.744"));
  CHECK_THROWS_WITH(require_chosen_span(scheduled_config(1, 0), at),
                    Contains("schedule.epochs=1 to let it fall over 1 epoch and"));
}

TEST_CASE("a checkpoint keeps what its schedule spanned", "[schedule_span]") {
  const std::string stored = settings::effective_config(scheduled_config(5, 3));
  const ResumedAt at{.config = stored, .step = 40, .steps_per_epoch = kEpochSteps};
  CHECK_NOTHROW(require_chosen_span(scheduled_config(7, 3), at));
  CHECK(change_of_span(scheduled_config(7, 3), at).empty());
  CHECK_THROWS_WITH(require_chosen_span(scheduled_config(5, 0), at), Contains("falls over 3 epochs"));
  CHECK_THAT(change_of_span(scheduled_config(8, 8), at),
             Contains("over 8 epochs instead of 3") && Contains("instead of 0"));
}

TEST_CASE("a run says where it and its schedule have different lengths", "[schedule_span]") {
  CHECK(span_note(scheduled_config(3, 0), kEpochSteps).empty());
  CHECK(span_note(scheduled_config(3, 0, "constant"), kEpochSteps).empty());
  CHECK_THAT(span_note(scheduled_config(3, 2), kEpochSteps),
             Contains("2 of 3 epochs and then stays at 0, so that nothing"));
  CHECK_THAT(span_note(scheduled_config(2, 4), kEpochSteps), Contains("the run ends after 2, at a rate of 0.513"));
}

settings::Config stepped_config(std::int64_t steps, std::int64_t schedule_steps = 0) {
  settings::Config config = scheduled_config(2, 0);
  config.train.steps = steps;
  config.schedule.steps = schedule_steps;
  return config;
}

TEST_CASE("lengths in steps are compared with lengths in epochs", "[schedule_span]") {
  const ResumedAt at{.config = kOld, .step = 10, .steps_per_epoch = kEpochSteps};
  CHECK_NOTHROW(require_chosen_span(stepped_config(20), at));
  CHECK_NOTHROW(require_chosen_span(stepped_config(25, 20), at));
  // 1 − 10/19 and 1 − 10/24
  CHECK_THROWS_WITH(require_chosen_span(stepped_config(25), at),
                    Contains("train.steps = 25 would change the learning rate, which falls over 2 epochs") &&
                        Contains("schedule.epochs=2 to continue from 0.474 as planned (it stays at 0 after epoch 2)") &&
                        Contains("schedule.steps=25 to let it fall over 25 steps and continue from 0.583"));
  const std::string stored = settings::effective_config(stepped_config(25));
  const ResumedAt in_steps{.config = stored, .step = 10, .steps_per_epoch = kEpochSteps};
  CHECK_NOTHROW(require_chosen_span(stepped_config(25), in_steps));
  CHECK_THROWS_WITH(require_chosen_span(scheduled_config(3, 0), in_steps),
                    Contains("train.epochs = 3 would change the learning rate, which falls over 25 steps") &&
                        Contains("schedule.steps=25 to continue from 0.583 as planned (it stays at 0 after step 25)"));
  CHECK_THAT(change_of_span(scheduled_config(3, 3), in_steps), Contains("over 3 epochs instead of 25 steps"));
  CHECK_THAT(span_note(stepped_config(25, 15), kEpochSteps), Contains("falls over 15 of 25 steps"));
  CHECK_THAT(way_to_go_on(stepped_config(25), kEpochSteps),
             Contains("set train.steps and schedule.steps: schedule.steps = 25 keeps the learning rate at 0 "));
}

}  // namespace
}  // namespace unisono::session
