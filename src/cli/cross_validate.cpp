#include "unisono/jobs/trials.hpp"

#include <memory>

#include "commands.hpp"

namespace unisono::cli {

void add_cross_validate(Command app, Chosen& chosen) {
  Command command = app.add_subcommand(
      "cross-validate", "train a config's model on folds of its training examples, and measure it on the others");
  const auto arguments = std::make_shared<TrialArguments>();
  arguments->add_to(command, "cross-validation");
  command.callback([arguments, &chosen] { TrialArguments::choose(arguments, jobs::cross_validate, chosen); });
}

}  // namespace unisono::cli
