#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "unisono/base/errors.hpp"
#include "unisono/base/log.hpp"
#include "unisono/comm/mpi.hpp"
#include "unisono/experiment/bench.hpp"

namespace unisono::cli {

/// What the command line asks for: work that one process does, without MPI (however many were started), or work for all
/// ranks.
struct Chosen {
  const models::ModelKinds& models;  ///< of one's own
  std::function<void()> alone = {};
  std::function<ExitCode(comm::MpiSession&, Log&)> together = {};
};

// Each adds its command; parsing fills `chosen`, which must outlive it.
void add_train(CLI::App& app, Chosen& chosen);
void add_replay(CLI::App& app, Chosen& chosen);
void add_evaluate(CLI::App& app, Chosen& chosen);
void add_predict(CLI::App& app, Chosen& chosen);
void add_export(CLI::App& app, Chosen& chosen);
void add_neighbors(CLI::App& app, Chosen& chosen);
void add_compare(CLI::App& app, Chosen& chosen);
void add_runs(CLI::App& app, Chosen& chosen);
void add_info(CLI::App& app, Chosen& chosen);
void add_bench(CLI::App& app, Chosen& chosen);
void add_data(CLI::App& app, Chosen& chosen);
void add_config(CLI::App& app, Chosen& chosen);

/// CONFIG, --set and --unset of the commands that take a config.
struct ConfigArguments {
  std::string path;
  std::vector<std::string> overrides, removals;
  void add_to(CLI::App& command);
  /// Parses it; one process says what the user should know of it. \throws ConfigError
  experiment::Config read(const models::ModelKinds& models) const;
};

/// --features and --classes of the commands that can do without a data file.
struct ShapeArguments {
  std::string features;
  Index classes = 0;
  void add_to(CLI::App& command);
  std::optional<experiment::SyntheticShape> shape() const;
};

/// The config, which needs no data where shapes are given.
experiment::Config read_config_without_data(const ConfigArguments& arguments, const ShapeArguments& shapes,
                                            const models::ModelKinds& models);

}  // namespace unisono::cli
