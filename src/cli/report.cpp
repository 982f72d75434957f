#include <fmt/format.h>

#include <memory>

#include "command.hpp"
#include "unisono/apply/evaluate.hpp"
#include "unisono/base/printable.hpp"
#include "unisono/report/report.hpp"
#include "unisono/session/stage_report.hpp"

namespace unisono::cli {
namespace {

/// What a page shows of a run's model: reports only read what runs have written.
void connect_model(report::ReportOptions& options, const std::string& data) {
  options.apply_model = [most = options.examples, models = options.models, data](const std::string& run, Log& log) {
    apply::ApplyOptions apply;
    apply.model = run;
    apply.data = data;
    apply.models = models;
    return apply::examples_of_model(apply, static_cast<std::size_t>(most), log);
  };
  options.predict_timeline = [models = options.models](const std::string& run, const std::string& config, int ranks) {
    return session::run_timeline(run, config, ranks, models);
  };
}

}  // namespace

void add_report(Command app, Chosen& chosen) {
  Command command = app.add_subcommand(
      "report", "write one HTML page about a run, several runs, a search, a cross-validation or a study");
  const auto options = std::make_shared<report::ReportOptions>();
  const auto data = std::make_shared<std::string>();
  command.add_option("folders", options->folders, "the folder of one of these, or of several runs")
      .required()
      .type_name("FOLDER");
  command
      .add_option("--output", options->output,
                  "the file to write (default: FOLDER/report.html; report.html of several runs)")
      .type_name("FILE");
  command
      .add_option("--examples", options->examples,
                  "apply the newest checkpoint: show this many of the examples that it is most wrong about, the "
                  "confusion matrix, and neighbours of vectors; 0: do not")
      .capture_default_str()
      .between(0, 1000)
      .type_name("N");
  command.add_option("--data", *data, "the HDF5 set of these examples (default: the one that was trained on)")
      .type_name("FILE");
  options->models = chosen.models;
  command.callback([options, data, &chosen] {
    chosen.alone = [options, data] {
      Log log;
      connect_model(*options, *data);
      report::report(*options, log);
    };
  });
}

void add_watch(Command app, Chosen& chosen) {
  Command command = app.add_subcommand(
      "watch", "follow a run, a search, a cross-validation or a study in the terminal until it ends");
  const auto options = std::make_shared<report::WatchOptions>();
  command.add_option("folder", options->folder, "its folder").required().type_name("FOLDER");
  command.add_flag("--once", options->once, "print how it goes now, and end");
  command.add_option("--every", options->every_seconds, "seconds between two looks")
      .capture_default_str()
      .between(0.05, 3600.0)
      .type_name("SECONDS");
  options->models = chosen.models;
  command.callback([options, &chosen] { chosen.alone = [options] { report::watch(*options); }; });
}

namespace {

struct RunsArguments {
  std::vector<std::string> runs;
  std::string folder = "runs";
  bool json = false, csv = false;
  report::TableFormat format() const {
    return json ? report::TableFormat::json : csv ? report::TableFormat::csv : report::TableFormat::text;
  }
};

void add_formats(Command command, RunsArguments& arguments) {
  Option json = command.add_flag("--json", arguments.json, "print one JSON object");
  command.add_flag("--csv", arguments.csv, "print CSV, one line per run").excludes(json);
}

}  // namespace

void add_compare(Command app, Chosen& chosen) {
  Command command =
      app.add_subcommand("compare", "a table of some runs: what differs in their configs, results, speed");
  const auto arguments = std::make_shared<RunsArguments>();
  command.add_option("runs", arguments->runs, "run folders").required().type_name("RUN");
  add_formats(command, *arguments);
  command.callback([arguments, &chosen] {
    chosen.alone = [arguments] {
      fmt::print("{}", printable(report::compare_runs(arguments->runs, arguments->format())));
    };
  });
}

void add_runs(Command app, Chosen& chosen) {
  Command command = app.add_subcommand("runs", "the same table of all runs in a folder");
  const auto arguments = std::make_shared<RunsArguments>();
  command.add_option("folder", arguments->folder, "where the runs are, or the folders that hold them")
      .capture_default_str()
      .type_name("FOLDER");
  add_formats(command, *arguments);
  command.callback([arguments, &chosen] {
    chosen.alone = [arguments] {
      Log log;
      fmt::print("{}", printable(report::list_runs(arguments->folder, arguments->format(), log)));
    };
  });
}

}  // namespace unisono::cli
