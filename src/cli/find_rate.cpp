#include "unisono/jobs/find_rate.hpp"

#include <memory>

#include "commands.hpp"
#include "unisono/session/job.hpp"

namespace unisono::cli {
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
  world->barrier();  // detects ranks that do not reach the end
  return range.interrupted ? ExitCode::interrupted : ExitCode::success;
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
