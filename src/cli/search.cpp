#include "unisono/jobs/trials.hpp"

#include <fmt/format.h>

#include <memory>

#include "commands.hpp"

namespace unisono::cli {

void add_search(Command app, Chosen& chosen) {
  struct Arguments : TrialArguments {
    bool dry_run = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  Command command = app.add_subcommand(
      "search", "train the trials of a config's [search] side by side, on all ranks, and find the best settings");
  arguments->add_to(command, "search");
  command.add_flag("--dry-run", arguments->dry_run, "list the trials and train none");
  command.callback([arguments, &chosen] {
    if (arguments->dry_run) {
      chosen.alone = [arguments, &chosen] {
        fmt::print("{}", jobs::list_trials(arguments->config.text(), chosen.models));
      };
      return;
    }
    TrialArguments::choose(arguments, jobs::search, chosen);
  });
}

}  // namespace unisono::cli
