#include "unisono/jobs/study.hpp"

#include <memory>

#include "commands.hpp"
#include "unisono/session/job.hpp"
#include "warn.hpp"

namespace unisono::cli {
namespace {

struct StudyArguments {
  ConfigArguments config;
  jobs::StudyOptions options;
};

ExitCode run_study(StudyArguments arguments, const models::ModelKinds& models, comm::MpiSession& session, Log& log) {
  const settings::Config config = arguments.config.read(models);
  arguments.options.models = models;
  const auto world = session.world(config.communication, warn_to(log));
  const ConfigText text = read_config(arguments.config.path, arguments.config.overrides, arguments.config.removals);
  const bool is_complete = jobs::study(*world, text, arguments.options, log);
  world->barrier();  // detects ranks that do not reach the end
  return is_complete ? ExitCode::success : ExitCode::interrupted;
}

}  // namespace

void add_study(Command app, Chosen& chosen) {
  const auto arguments = std::make_shared<StudyArguments>();
  Command command = app.add_subcommand(
      "study",
      "train the serial run of a config and the variants of its [study] with the same seeds, and compare them");
  arguments->config.add_to(command);
  command.add_option("--output", arguments->options.output, "the study's folder (default: studies/<name>)")
      .type_name("DIR");
  Option resume = command.add_flag("--resume", arguments->options.resume, "go on with the study in its folder");
  command.add_flag("--overwrite", arguments->options.overwrite, "replace the study in its folder").excludes(resume);
  command.callback([arguments, &chosen] {
    session::hold_stop_signals();
    chosen.together = [arguments, &chosen](comm::MpiSession& session, Log& log) {
      return run_study(*arguments, chosen.models, session, log);
    };
  });
}

}  // namespace unisono::cli
