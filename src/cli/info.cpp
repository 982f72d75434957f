#include "unisono/planning/info.hpp"

#include <memory>
#include <string>

#include "commands.hpp"

namespace unisono::cli {
namespace {

struct InfoArguments {
  ConfigArguments config;
  ShapeArguments shapes;
  planning::InfoOptions options;
  std::string timeline;
};

ExitCode run_info(InfoArguments arguments, const models::ModelKinds& models, comm::MpiSession& session, Log& log) {
  const settings::Config config = read_config_without_data(arguments.config, arguments.shapes, models);
  arguments.options.data = arguments.shapes.shape();
  const auto world = session.world(config.communication, warn_to(log));
  planning::info(*world, config, arguments.options, log);
  world->barrier();  // detects ranks that do not reach the end
  return ExitCode::success;
}

}  // namespace

void add_info(Command app, Chosen& chosen) {
  const auto arguments = std::make_shared<InfoArguments>();
  Command command = app.add_subcommand(
      "info", "show the layers of a config's model, and the memory that training needs on these ranks");
  arguments->config.add_to(command);
  arguments->shapes.add_to(command);
  command.add_flag("--json", arguments->options.json, "print the result as one JSON object");
  Option timeline = command.add_option("--timeline", arguments->timeline,
                                       "draw a step of the pipeline into this file (SVG): what each stage does when");
  timeline.type_name("FILE");
  command.add_flag("--overwrite", arguments->options.overwrite, "replace an earlier drawing").needs(timeline);
  command.callback([arguments, timeline, &chosen] {
    if (timeline.is_given()) arguments->options.timeline = arguments->timeline;
    chosen.together = [arguments, &chosen](comm::MpiSession& session, Log& log) {
      return run_info(*arguments, chosen.models, session, log);
    };
  });
}

}  // namespace unisono::cli
