#include "unisono/jobs/trials.hpp"

#include <memory>

#include "commands.hpp"

namespace unisono::cli {

void add_study(Command app, Chosen& chosen) {
  const auto arguments = std::make_shared<TrialArguments>();
  arguments->says_notes = true;
  Command command = app.add_subcommand(
      "study",
      "train the serial run of a config and the variants of its [study] with the same seeds, and compare them");
  arguments->config.add_to(command);
  command.add_option("--output", arguments->options.output, "the study's folder (default: studies/<name>)")
      .type_name("DIR");
  Option resume = command.add_flag("--resume", arguments->resume, "go on with the study in its folder");
  command.add_flag("--overwrite", arguments->overwrite, "replace the study in its folder").excludes(resume);
  command.callback([arguments, &chosen] { TrialArguments::choose(arguments, jobs::study, chosen); });
}

}  // namespace unisono::cli
