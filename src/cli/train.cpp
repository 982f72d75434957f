#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "command.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/resources.hpp"
#include "unisono/planning/planning.hpp"
#include "unisono/records/run_folder.hpp"
#include "unisono/session/run.hpp"
#include "unisono/session/simulate.hpp"

namespace unisono::cli {
namespace {

namespace fs = std::filesystem;

/// "runs/lenet/" → "runs/lenet"
std::string without_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

void require_resume(const std::string& folder, bool holds_run, bool resume) {
  if (!holds_run) {
    throw ConfigError(
        fmt::format("{}: is a folder that holds no run; give a config file, or a run folder with --resume", folder));
  }
  if (resume) return;
  throw ConfigError(
      fmt::format("{}: is a run folder: add --resume to continue that run, or give a config file for a new one; "
                  "{}/config.toml with --output DIR repeats it",
                  folder, folder));
}

/// The config for `unisono train`: read from a file or, with --resume and a run's folder, the run's own.
/// \param resume whether the run is resumed
/// \throws ConfigError
settings::Config read_train_config(const ConfigArguments& arguments, const std::string& output, bool resume,
                                   const models::ModelKinds& models) {
  std::error_code ignored;
  const bool is_folder = fs::is_directory(arguments.path, ignored);
  const std::string folder = without_slash(arguments.path);
  const std::string path = is_folder ? folder + "/config.toml" : arguments.path;
  const bool holds_run = records::holds_run(folder) && fs::exists(records::checkpoints_of(folder), ignored);
  if (is_folder) require_resume(folder, holds_run, resume);
  if (is_folder && !output.empty() && without_slash(output) != folder) {
    throw ConfigError(
        fmt::format("--output {}: the run in {} continues in its own folder; leave --output out", output, folder));
  }
  ConfigArguments read = arguments;
  read.path = path;
  settings::Config config = read.read(models);
  if (is_folder) {
    config.output = folder;
    config.data.path = records::find_data(folder, config.data.path);
  } else if (!output.empty()) {
    config.output = output;
  }
  return config;
}

session::Watching watching(const std::string& name) {
  if (name == "bar") return session::Watching::bar;
  if (name == "lines") return session::Watching::lines;
  return name == "none" ? session::Watching::none : session::Watching::automatic;
}

/// What commands that make a run are told about it.
struct RunArguments {
  ConfigArguments config;
  std::string output;
  bool resume = false, overwrite = false;
  std::string progress = "auto";

  /// \return the option --resume
  Option add_to(Command command);
  session::RunOptions options() const;
};

Option RunArguments::add_to(Command command) {
  config.add_to(command);
  command.add_option("--output", output, "run folder (default: runs/<name>)").type_name("DIR");
  Option resumes =
      command.add_flag("--resume", resume, "continue the run in the run folder; CONFIG may then be that folder");
  command.add_flag("--overwrite", overwrite, "replace the run in the run folder").excludes(resumes);
  command
      .add_option("--progress", progress,
                  "how progress is shown: auto (a bar on a terminal, otherwise lines), bar, lines or none")
      .one_of({"auto", "bar", "lines", "none"})
      .capture_default_str();
  return resumes;
}

session::RunOptions RunArguments::options() const {
  session::RunOptions options{.existing = records::Existing::refuse, .watching = watching(progress)};
  if (resume) options.existing = records::Existing::resume;
  if (overwrite) options.existing = records::Existing::overwrite;
  return options;
}

struct TrainArguments : RunArguments {
  std::string compare_with;
  std::vector<std::string> changes;  ///< "KEY=VALUE"
};

/// The keys of changes "KEY=VALUE", each once. \throws ConfigError for one that a resumed run must keep
std::vector<std::string> changed_keys(const std::vector<std::string>& changes) {
  std::vector<std::string> keys;
  for (const std::string& change : changes) {
    const std::string key = change.substr(0, change.find('='));
    if (std::ranges::count(keys, key) == 0) keys.push_back(key);
    if (settings::may_change_on_request(key)) continue;
    throw ConfigError(fmt::format(
        "--change {}: a resumed run keeps this key; what may change are settings of its optimizer and schedule. Start "
        "a new run with --output DIR, from the weights of this one with --set train.initialise_from=RUN",
        change));
  }
  return keys;
}

/// The config with the changes. They are read as overrides, but messages call them what the user wrote.
settings::Config read_changed_config(const TrainArguments& arguments, const models::ModelKinds& models) {
  ConfigArguments changed = arguments.config;
  changed.overrides.insert(changed.overrides.end(), arguments.changes.begin(), arguments.changes.end());
  try {
    return read_train_config(changed, arguments.output, arguments.resume, models);
  } catch (const ConfigError& error) {
    const std::string_view message = error.what(), option = "--set ";
    const bool is_change =
        message.starts_with(option) && std::ranges::any_of(arguments.changes, [&](const std::string& change) {
          return message.substr(option.size()).starts_with(change);
        });
    if (!is_change) throw;
    throw ConfigError("--change " + std::string(message.substr(option.size())));
  }
}

ExitCode run_train(const TrainArguments& arguments, const models::ModelKinds& models, comm::MpiSession& session,
                   Log& log) {
  const std::vector<std::string> changes = changed_keys(arguments.changes);
  const settings::Config config = read_changed_config(arguments, models);
  session::RunOptions options = arguments.options();
  options.compare_with = arguments.compare_with;
  options.changes = changes;
  const auto world = session.world(config.communication, warn_to(log));
  options.stored = [&] { session.results_are_stored(config.communication.timeout_seconds); };
  const ExitCode code = [&] {
    session::Job job(*world, log, {.heeds_signals = true});
    return exit_code_of(session::run(job, *world, config, options));
  }();
  end_together(*world, session, config, code);
  return code;
}

struct SimulateArguments : RunArguments {
  std::int64_t threads = 0;  ///< 0: all cores
  std::string profile;       ///< of `unisono plan`
  bool has_profile = false;  ///< false: speeds are those of the config
};

/// What failures of simulated hosts have cost, beside the formula.
void say_failures(const session::SimulationCost& cost, Log& log) {
  const session::FailureCost& lost = cost.failures;
  const auto share = [&](double seconds) { return 100 * seconds / cost.simulated_seconds; };
  log.info(fmt::format(
      "{} cost {:.1f} % of the time: {:.1f} % for {}, {:.1f} % for work that was made again, {:.1f} % until "
      "the ranks trained again; to be expected with a checkpoint every {}: {:.1f} %",
      count_of(lost.failures, "failure"), share(lost.sum()), share(lost.for_checkpoints),
      count_of(lost.checkpoints, "checkpoint"), share(lost.made_again), share(lost.restarts),
      duration_text(lost.interval), 100 * lost.expected));
}

ExitCode run_simulate(const SimulateArguments& arguments, const models::ModelKinds& models, comm::MpiSession& session,
                      Log& log) {
  settings::Config config = read_train_config(arguments.config, arguments.output, arguments.resume, models);
  const auto world = session.world(config.communication, warn_to(log));
  if (world->size() > 1) {
    throw LaunchError("unisono simulate runs in one process, however many ranks it simulates: start it without mpirun");
  }
  if (arguments.has_profile)
    config = planning::with_speeds_of(arguments.profile, std::move(config), arguments.config.overrides, log);
  session::Job job(*world, log, {.heeds_signals = true});
  const auto settled = session::settle_simulation(job, std::move(config));
  if (!settled) return ExitCode::interrupted;
  const int threads = arguments.threads > 0 ? static_cast<int>(arguments.threads) : usable_cpus();
  session::SimulationCost cost;
  const session::RunResult result = session::simulate(job, *settled, arguments.options(), threads, &cost);
  log.info(fmt::format("simulated {} in {}, with {} gradients ({:.3g} a second)", duration_text(cost.simulated_seconds),
                       duration_text(cost.seconds), cost.computations,
                       static_cast<double>(cost.computations) / std::max(cost.seconds, 1e-9)));
  if (cost.failures.failures > 0) say_failures(cost, log);
  return exit_code_of(result);
}

}  // namespace

void add_simulate(Command app, Chosen& chosen) {
  const auto arguments = std::make_shared<SimulateArguments>();
  Command command = app.add_subcommand(
      "simulate", "train on simulated ranks: true gradients, and the time that many computers would take");
  Option resume = arguments->add_to(command);
  Option profile = command.add_option("--profile", arguments->profile,
                                      "a file of unisono plan --save-profile: ranks and links are as fast as it says");
  profile.type_name("FILE").excludes(resume);
  command
      .add_option("--threads", arguments->threads,
                  "threads of this machine that compute gradients (default: its cores)")
      .between(1, 1 << 16);
  command.callback([arguments, profile, &chosen] {
    arguments->has_profile = profile.is_given();
    session::hold_stop_signals();
    chosen.together = [arguments, &chosen](comm::MpiSession& session, Log& log) {
      return run_simulate(*arguments, chosen.models, session, log);
    };
  });
}

void add_train(Command app, Chosen& chosen) {
  const auto arguments = std::make_shared<TrainArguments>();
  Command command =
      app.add_subcommand("train", "train the model of a config, on all ranks that the command is started on");
  Option resume = arguments->add_to(command);
  command
      .add_option("--change", arguments->changes,
                  "a setting of the optimizer or the schedule that a resumed run has from here on, e.g. --change "
                  "optimizer.learning_rate=0.01; the run records it; may be repeated")
      .type_name("KEY=VALUE")
      .repeated()
      .needs(resume);
  command
      .add_option("--compare-with", arguments->compare_with,
                  "run folder or checkpoint, e.g. of a serial run; the summary reports the distance between its "
                  "parameters and the final parameters")
      .type_name("RUN");
  command.callback([arguments, &chosen] {
    session::hold_stop_signals();
    chosen.together = [arguments, &chosen](comm::MpiSession& session, Log& log) {
      return run_train(*arguments, chosen.models, session, log);
    };
  });
}

void add_replay(Command app, Chosen& chosen) {
  struct Arguments {
    std::string run, output;
  };
  const auto arguments = std::make_shared<Arguments>();
  Command command = app.add_subcommand("replay", "repeat a recorded asynchronous run bit for bit");
  command.add_option("RUN", arguments->run, "run folder of a run with strategy.record = true")
      .type_name("RUN")
      .required();
  command
      .add_option("--output", arguments->output, "folder for the repeated run (default: RUN/replay, which is replaced)")
      .type_name("DIR");
  command.callback([arguments, &chosen] {
    session::hold_stop_signals();
    chosen.together = [arguments, &chosen](comm::MpiSession& mpi, Log& log) {
      const auto world = mpi.world({}, warn_to(log));
      const ExitCode code = [&] {
        session::Job job(*world, log, {.heeds_signals = true});
        return exit_code_of(session::replay(job, arguments->run, arguments->output, chosen.models));
      }();
      end_together(*world, mpi, {}, code);
      return code;
    };
  });
}

}  // namespace unisono::cli
