#include "unisono/report/runs.hpp"

#include <fmt/format.h>

#include <memory>

#include "commands.hpp"

namespace unisono::cli {
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
    chosen.alone = [arguments] { fmt::print("{}", report::compare_runs(arguments->runs, arguments->format())); };
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
      fmt::print("{}", report::list_runs(arguments->folder, arguments->format(), log));
    };
  });
}

}  // namespace unisono::cli
