#include "unisono/jobs/cross_validation.hpp"

#include <memory>

#include "commands.hpp"
#include "exit_code.hpp"
#include "trial_arguments.hpp"
#include "unisono/session/job.hpp"
#include "warn.hpp"

namespace unisono::cli {

void add_cross_validate(Command app, Chosen& chosen) {
  Command command = app.add_subcommand(
      "cross-validate", "train a config's model on folds of its training examples, and measure it on the others");
  const auto arguments = std::make_shared<TrialArguments>();
  arguments->add_to(command, "cross-validation");
  command.callback([arguments, &chosen] {
    session::hold_stop_signals();
    chosen.together = [arguments, &chosen](comm::MpiSession& session, Log& log) {
      return arguments->run(jobs::cross_validate, chosen.models, session, log);
    };
  });
}

}  // namespace unisono::cli
