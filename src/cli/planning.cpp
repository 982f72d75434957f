#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "command.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/printable.hpp"
#include "unisono/planning/planning.hpp"
#include "unisono/records/run_folder.hpp"
#include "unisono/session/run_plan.hpp"

namespace unisono::cli {
namespace {

/// What `info` and `bench` are told.
template <typename Options>
struct Planned {
  ConfigArguments config;
  ShapeArguments shapes;
  Options options = {};
};
struct InfoArguments : Planned<planning::InfoOptions> {
  std::string timeline;
};
using BenchArguments = Planned<planning::BenchOptions>;
struct PlanArguments : Planned<planning::PlanOptions> {
  bool grade = false, noise = false;
};

/// \param work planning::info or planning::bench
template <typename Options, typename Work>
ExitCode run_planned(Planned<Options> arguments, const models::ModelKinds& models, comm::MpiSession& session, Log& log,
                     const Work& work) {
  const settings::Config config = read_config_without_data(arguments.config, arguments.shapes, models);
  arguments.options.data = arguments.shapes.shape();
  const auto world = session.world(config.communication, warn_to(log));
  work(*world, config, arguments.options, log);
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
  command.add_flag(
      "--roofline", arguments->options.roofline,
      "show the flops and bytes of each layer of a network, and the least time that they take on this CPU");
  Option timeline = command.add_option("--timeline", arguments->timeline,
                                       "draw a step of the pipeline into this file (SVG): what each stage does when");
  timeline.type_name("FILE");
  command.add_flag("--overwrite", arguments->options.overwrite, "replace an earlier drawing").needs(timeline);
  command.callback([arguments, timeline, &chosen] {
    if (timeline.is_given()) arguments->options.timeline = arguments->timeline;
    chosen.together = [arguments, &chosen](comm::MpiSession& session, Log& log) {
      return run_planned<planning::InfoOptions>(*arguments, chosen.models, session, log, planning::info);
    };
  });
}

void ShapeArguments::add_to(Command command) {
  Option shape =
      command.add_option("--features", features, "shape of an example, if there is no data file").type_name("CxHxW");
  command
      .add_option("--classes", classes,
                  "number of classes; 0: the features themselves are the targets (autoencoder), or the next tokens")
      .between(0, 1 << 24);
  command
      .add_option("--vocabulary", vocabulary,
                  "how many different tokens there are, if there is no data file; an example has data.context tokens")
      .excludes(shape)
      .between(2, 1 << 24);
}

std::optional<planning::SyntheticShape> ShapeArguments::shape() const {
  if (!are_given() && classes == 0) return std::nullopt;
  if (!are_given()) throw ConfigError("--classes needs --features or --vocabulary");
  if (vocabulary > 0) return planning::SyntheticShape{.features = {}, .classes = classes, .vocabulary = vocabulary};
  return planning::SyntheticShape{.features = planning::parse_feature_shape(features), .classes = classes};
}

settings::Config read_config_without_data(const ConfigArguments& arguments, const ShapeArguments& shapes,
                                          const models::ModelKinds& models) {
  ConfigArguments all = arguments;
  // A config without a data file will do where the shapes are given.
  if (shapes.are_given()) all.overrides.emplace(all.overrides.begin(), "data.path=\"none: random data\"");
  return all.read(models);
}

void add_bench(Command app, Chosen& chosen) {
  const auto arguments = std::make_shared<BenchArguments>();
  Command command = app.add_subcommand("bench", "measure the speed of training steps, on random data in memory");
  arguments->config.add_to(command);
  arguments->shapes.add_to(command);
  command
      .add_option("--steps", arguments->options.steps, "number of training steps to measure (default: about 3 seconds)")
      .between(1, 1 << 30);
  command
      .add_option("--batch-per-rank", arguments->options.batch_per_rank,
                  "examples per step on each rank (default: train.batch_size, divided among the ranks)")
      .between(1, 1 << 30);
  command.add_flag("--layers", arguments->options.layers,
                   "time each layer of a network, too, and compare it with the least time that its arithmetic or its "
                   "memory takes on this CPU (roofline)");
  command.add_flag("--json", arguments->options.json, "print the result as one JSON object");
  command.callback([arguments, &chosen] {
    chosen.together = [arguments, &chosen](comm::MpiSession& session, Log& log) {
      return run_planned(*arguments, chosen.models, session, log, planning::bench);
    };
  });
}

void add_plan(Command app, Chosen& chosen) {
  const auto arguments = std::make_shared<PlanArguments>();
  planning::PlanOptions& options = arguments->options;
  Command command = app.add_subcommand(
      "plan", "predict how fast ways of training a network would be on some hosts, and recommend one");
  arguments->config.add_to(command);
  arguments->shapes.add_to(command);
  command.add_option("--hosts", options.hosts, "numbers of hosts: 1,2,4,8 (default: those that the command runs on)")
      .separated_by(',')
      .between(1, 1 << 16);
  Option link = command
                    .add_option("--link-mbit", options.link_mbit,
                                "speed of a host's link that is not there, in each direction, in Mbit/s")
                    .between(0.001, 1e9);
  command
      .add_option("--link-microseconds", options.link_microseconds,
                  "how long a short message takes on that link (default: 50)")
      .between(0.001, 1e9)
      .needs(link);
  Option profile =
      command.add_option("--profile", options.profile, "predict from what --save-profile wrote, instead of measuring");
  profile.type_name("FILE");
  command.add_option("--save-profile", options.save_profile, "write what was measured into this file")
      .type_name("FILE")
      .excludes(profile);
  command.add_option("--write", options.write, "write the recommended config into this file").type_name("FILE");
  command.add_flag("--overwrite", options.overwrite, "replace these files");
  command.add_flag("--json", options.json, "print the result as one JSON object");
  Option grade = command.add_flag("--grade", arguments->grade,
                                  "CONFIG is the folder of a run that has ended, on as many ranks: compare what would "
                                  "have been predicted with what happened");
  command
      .add_flag("--noise-scale", arguments->noise,
                "CONFIG is the folder of a run: measure the gradient noise scale at its newest checkpoint, on its "
                "training examples; it says from which number of examples a step on more ranks hardly pays")
      .excludes(grade);
  command.callback([arguments, &chosen] {
    chosen.together = [arguments, &chosen](comm::MpiSession& session, Log& log) {
      arguments->options.models = chosen.models;
      if (arguments->grade || arguments->noise) {
        const std::string folder = arguments->config.path;
        if (std::error_code ignored; std::filesystem::is_regular_file(folder, ignored)) {
          throw ConfigError(fmt::format("{}: is a file, but {} takes the folder of a run", folder,
                                        arguments->grade ? "--grade" : "--noise-scale"));
        }
        (arguments->grade ? arguments->options.grade : arguments->options.noise) = folder;
        arguments->config.path = records::config_of(folder);
      }
      return run_planned<planning::PlanOptions>(*arguments, chosen.models, session, log, planning::plan);
    };
  });
}

void add_config(Command app, Chosen& chosen) {
  Command command = app.add_subcommand("config", "check a config, or list all config keys");
  command.require_subcommand();

  Command check = command.add_subcommand(
      "check", "print a config with all defaults, or the error in it, and check it against the data");
  const auto arguments = std::make_shared<ConfigArguments>();
  arguments->add_to(check);
  check.callback([arguments, &chosen] {
    chosen.alone = [arguments, &chosen] {
      const settings::Config config = arguments->read(chosen.models);
      const std::string found = unisono::session::check(config);
      print_error("unisono: " + found);
      fmt::print("{}", printable(settings::effective_config(config)));
    };
  });

  Command reference =
      command.add_subcommand("reference", "print every config key with meaning, unit, default and range");
  const auto markdown = std::make_shared<bool>(false);
  reference.add_flag("--markdown", *markdown, "print as Markdown (docs/config.md)");
  reference.callback([markdown, &chosen] {
    chosen.alone = [markdown, &chosen] {
      const auto format = *markdown ? ReferenceFormat::markdown : ReferenceFormat::text;
      fmt::print("{}", settings::config_reference(format, chosen.models));
    };
  });
}

}  // namespace unisono::cli
