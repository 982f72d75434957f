#include <memory>

#include "commands.hpp"
#include "exit_code.hpp"
#include "train_config.hpp"
#include "unisono/session/run.hpp"
#include "warn.hpp"

namespace unisono::cli {
namespace {

struct TrainArguments {
  ConfigArguments config;
  std::string output, compare_with;
  bool resume = false, overwrite = false;
  std::string progress = "auto";
};

session::Watching watching(const std::string& name) {
  if (name == "bar") return session::Watching::bar;
  if (name == "lines") return session::Watching::lines;
  return name == "none" ? session::Watching::none : session::Watching::automatic;
}

ExitCode run_train(const TrainArguments& arguments, const models::ModelKinds& models, comm::MpiSession& session,
                   Log& log) {
  const settings::Config config = read_train_config(arguments.config, arguments.output, arguments.resume, models);
  session::RunOptions options{.existing = records::Existing::refuse,
                              .watching = watching(arguments.progress),
                              .compare_with = arguments.compare_with};
  if (arguments.resume) options.existing = records::Existing::resume;
  if (arguments.overwrite) options.existing = records::Existing::overwrite;
  const auto world = session.world(config.communication, warn_to(log));
  const ExitCode code = [&] {
    session::Job job(*world, log, {.heeds_signals = true});
    return exit_code_of(session::run(job, *world, config, options));
  }();
  world->barrier();  // detects ranks that do not reach the end
  return code;
}

}  // namespace

void add_train(Command app, Chosen& chosen) {
  const auto arguments = std::make_shared<TrainArguments>();
  Command command =
      app.add_subcommand("train", "train the model of a config, on all ranks that the command is started on");
  arguments->config.add_to(command);
  command.add_option("--output", arguments->output, "run folder (default: runs/<name>)").type_name("DIR");
  Option resume = command.add_flag("--resume", arguments->resume,
                                   "continue the run in the run folder; CONFIG may then be that folder");
  command.add_flag("--overwrite", arguments->overwrite, "replace the run in the run folder").excludes(resume);
  command
      .add_option("--compare-with", arguments->compare_with,
                  "run folder or checkpoint, e.g. of a serial run; the summary reports the distance between its "
                  "parameters and the final parameters")
      .type_name("RUN");
  command
      .add_option("--progress", arguments->progress,
                  "how progress is shown: auto (a bar on a terminal, otherwise lines), bar, lines or none")
      .one_of({"auto", "bar", "lines", "none"})
      .capture_default_str();
  command.callback([arguments, &chosen] {
    session::hold_stop_signals();
    chosen.together = [arguments, &chosen](comm::MpiSession& session, Log& log) {
      return run_train(*arguments, chosen.models, session, log);
    };
  });
}

}  // namespace unisono::cli
