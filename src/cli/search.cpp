#include "unisono/experiment/search.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "commands.hpp"
#include "exit_code.hpp"
#include "unisono/experiment/plans.hpp"
#include "warn.hpp"

namespace unisono::cli {
namespace {

struct Arguments {
  ConfigArguments config;
  experiment::TrialOptions options;
  bool resume = false, overwrite = false, dry_run = false;
};

/// The config of the search in a folder, where a folder is given.
void find_config(Arguments& arguments) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(arguments.config.path, ignored)) return;
  const std::string folder = arguments.config.path;
  arguments.config.path = folder + "/search.toml";
  if (!std::filesystem::exists(arguments.config.path, ignored)) {
    throw ConfigError(folder + ": is a folder that holds no search; give a config file, or a search's folder with --resume");
  }
  if (!arguments.resume && !arguments.dry_run) {
    throw ConfigError(fmt::format("{}: holds a search: add --resume to go on with it, or give {} and --output DIR to "
                                  "repeat it",
                                  folder, arguments.config.path));
  }
  if (arguments.options.output.empty()) arguments.options.output = folder;
}

ExitCode search(Arguments arguments, const models::ModelKinds& models, comm::MpiSession& session, Log& log) {
  find_config(arguments);
  const ConfigText text = arguments.config.text();
  if (arguments.resume) arguments.options.existing = experiment::Existing::resume;
  if (arguments.overwrite) arguments.options.existing = experiment::Existing::overwrite;
  const auto world = session.world(experiment::parse_config(text, models).communication, warn_to(log));
  experiment::RunResult result;
  {
    experiment::Job job(*world, log, {.heeds_signals = true});
    result.status = experiment::search(job, text, models, arguments.options);
  }
  world->barrier();  // detects ranks that do not reach the end
  return exit_code_of(result);
}

}  // namespace

void add_search(Command app, Chosen& chosen) {
  const auto arguments = std::make_shared<Arguments>();
  Command command = app.add_subcommand(
      "search", "train the trials of a config's [search] side by side, on all ranks, and find the best settings");
  arguments->config.add_to(command);
  command.add_option("--output", arguments->options.output, "folder of the search (default: runs/<name>-search)")
      .type_name("DIR");
  Option resume = command.add_flag("--resume", arguments->resume,
                                   "go on with the search in its folder; CONFIG may then be that folder");
  command.add_flag("--overwrite", arguments->overwrite, "replace the search in the folder").excludes(resume);
  command.add_flag("--dry-run", arguments->dry_run, "list the trials and train none");
  command.callback([arguments, &chosen] {
    if (arguments->dry_run) {
      chosen.alone = [arguments, &chosen] {
        find_config(*arguments);
        fmt::print("{}", experiment::list_trials(arguments->config.text(), chosen.models));
      };
      return;
    }
    experiment::hold_stop_signals();
    chosen.together = [arguments, &chosen](comm::MpiSession& session, Log& log) {
      return search(*arguments, chosen.models, session, log);
    };
  });
}

}  // namespace unisono::cli
