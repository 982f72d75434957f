#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "command.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/log.hpp"
#include "unisono/comm/mpi.hpp"
#include "unisono/data/import.hpp"
#include "unisono/jobs/trials.hpp"
#include "unisono/planning/bench.hpp"
#include "unisono/session/job.hpp"
#include "unisono/session/run.hpp"

namespace unisono::cli {

/// The work that the parsed command line asks for: either `alone`, done by one process without MPI (however many were
/// started), or `together`, done by all ranks.
struct Chosen {
  const models::ModelKinds& models;  ///< additional kinds of models
  std::function<void()> alone = {};
  std::function<ExitCode(comm::MpiSession&, Log&)> together = {};
};

// Each adds its command to the command line; parsing it fills `chosen`, which must outlive `app`.
void add_train(Command app, Chosen& chosen);
void add_replay(Command app, Chosen& chosen);
void add_evaluate(Command app, Chosen& chosen);
void add_predict(Command app, Chosen& chosen);
void add_export(Command app, Chosen& chosen);
void add_neighbors(Command app, Chosen& chosen);
void add_compare(Command app, Chosen& chosen);
void add_runs(Command app, Chosen& chosen);
void add_report(Command app, Chosen& chosen);
void add_watch(Command app, Chosen& chosen);
void add_info(Command app, Chosen& chosen);
void add_bench(Command app, Chosen& chosen);
void add_data(Command app, Chosen& chosen);
void add_study(Command app, Chosen& chosen);
void add_find_rate(Command app, Chosen& chosen);
void add_config(Command app, Chosen& chosen);
void add_search(Command app, Chosen& chosen);
void add_cross_validate(Command app, Chosen& chosen);

/// The arguments CONFIG, --set and --unset of commands that take a config.
struct ConfigArguments {
  std::string path;
  std::vector<std::string> overrides, removals;
  void add_to(Command command);
  /// The file with these changes. \throws ConfigError where it cannot be read
  ConfigText text() const { return read_config(path, overrides, removals); }
  /// Reads and checks the config; one process prints warnings about it. \throws ConfigError
  settings::Config read(const models::ModelKinds& models) const;
};

/// The options --features and --classes of commands that work without a data file.
struct ShapeArguments {
  std::string features;
  Index classes = 0;
  void add_to(Command command);
  std::optional<planning::SyntheticShape> shape() const;
};

/// Reads the config; if shapes are given, it needs no data file.
settings::Config read_config_without_data(const ConfigArguments& arguments, const ShapeArguments& shapes,
                                          const models::ModelKinds& models);

/// Sends warnings of the communication layer to the log.
inline comm::Warn warn_to(Log& log) {
  return [&log](const std::string& text) { log.warning(text); };
}

/// The exit code for a run's result. \throws TrainingError if the run diverged
inline ExitCode exit_code_of(const session::RunResult& result) {
  switch (result.status) {
    case session::RunStatus::complete:
    case session::RunStatus::already_complete:
      return ExitCode::success;
    case session::RunStatus::interrupted:
    case session::RunStatus::stopped:
      return ExitCode::interrupted;
    case session::RunStatus::diverged:
      break;
  }
  throw session::TrainingError(result.message);
}

/// Adds --output and the related options of commands that make a data set.
std::shared_ptr<data::ImportOutput> add_output(Command command);
/// How numbers are written in a text: --decimal and --thousands.
void add_number_form(Command command, data::TableForm& form);
void add_encoding(Command command, data::Encoding& encoding);

/// A delimiter for people: "tabs", "','".
std::string delimiter_text(const std::string& delimiter);

/// Prints what a command made: a set of features, and of a table what its columns are.
void say(const data::ImportSummary& made);

// Each adds its subcommands to `data` or to `data import`.
void add_import(Command data, Chosen& chosen);
void add_sparse_imports(Command import, Chosen& chosen);
void add_cooccurrences(Command data, Chosen& chosen);

/// The arguments of commands that make many trainings: CONFIG, --output, --resume, --overwrite.
struct TrialArguments {
  ConfigArguments config;
  jobs::TrialOptions options;
  bool resume = false, overwrite = false;
  bool says_notes = false;  ///< whether warnings about the config are printed

  /// \param what "search"
  void add_to(Command command, const std::string& what);

  using Make = session::RunStatus(session::Job&, const ConfigText&, const models::ModelKinds&,
                                  const jobs::TrialOptions&);
  /// Lets a command make its trainings with these arguments.
  static void choose(const std::shared_ptr<TrialArguments>& arguments, Make* make, Chosen& chosen);

 private:
  ExitCode run(Make* make, const models::ModelKinds& models, comm::MpiSession& session, Log& log) const;
};

}  // namespace unisono::cli
