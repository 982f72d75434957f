#include <memory>

#include "command.hpp"
#include "unisono/jobs/jobs.hpp"
#include "unisono/session/job.hpp"

namespace unisono::cli {

void add_search(Command app, Chosen& chosen) {
  struct Arguments : TrialArguments {
    bool dry_run = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  Command command = app.add_subcommand(
      "search", "train the trials of a config's [search] side by side, on all ranks, and find the best settings");
  arguments->add_to(command, "search");
  command.add_flag("--dry-run", arguments->dry_run,
                   "check the search as before its start, list its trials, train none");
  command.callback([arguments, &chosen] {
    TrialArguments::choose(arguments, arguments->dry_run ? jobs::list_trials : jobs::search, chosen);
  });
}

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

void add_cross_validate(Command app, Chosen& chosen) {
  Command command = app.add_subcommand(
      "cross-validate", "train a config's model on folds of its training examples, and measure it on the others");
  const auto arguments = std::make_shared<TrialArguments>();
  arguments->add_to(command, "cross-validation");
  command.callback([arguments, &chosen] { TrialArguments::choose(arguments, jobs::cross_validate, chosen); });
}

namespace {

struct FindRateArguments {
  ConfigArguments config;
  jobs::FindRateOptions options;
};

ExitCode run_find_rate(const FindRateArguments& arguments, const models::ModelKinds& models, comm::MpiSession& session,
                       Log& log) {
  const settings::Config config = arguments.config.read(models);
  const auto world = session.world(config.communication, warn_to(log));
  const jobs::RateRange range = jobs::find_rate(*world, config, arguments.options, log);
  const ExitCode code = range.interrupted ? ExitCode::interrupted : ExitCode::success;
  end_together(*world, session, config, code);
  return code;
}

}  // namespace

void add_find_rate(Command app, Chosen& chosen) {
  const auto arguments = std::make_shared<FindRateArguments>();
  Command command = app.add_subcommand(
      "find-rate",
      "a short training with a rising learning rate, which shows where the loss falls and where it explodes");
  arguments->config.add_to(command);
  jobs::FindRateOptions& options = arguments->options;
  command.add_option("--lowest", options.lowest, "learning rate of the first step").capture_default_str().positive();
  command.add_option("--highest", options.highest, "learning rate of the last step").capture_default_str().positive();
  command.add_option("--steps", options.steps, "number of steps").capture_default_str().between(20, 1 << 20);
  command.add_option("--output", options.output, "folder of find-rate.csv and find-rate.svg (default: rates/<name>)")
      .type_name("DIR");
  command.callback([arguments, &chosen] {
    session::hold_stop_signals();
    chosen.together = [arguments, &chosen](comm::MpiSession& session, Log& log) {
      return run_find_rate(*arguments, chosen.models, session, log);
    };
  });
}

}  // namespace unisono::cli
