#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "command.hpp"
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
void add_train(Command app, Chosen& chosen);
void add_replay(Command app, Chosen& chosen);
void add_evaluate(Command app, Chosen& chosen);
void add_predict(Command app, Chosen& chosen);
void add_export(Command app, Chosen& chosen);
void add_neighbors(Command app, Chosen& chosen);
void add_compare(Command app, Chosen& chosen);
void add_runs(Command app, Chosen& chosen);
void add_info(Command app, Chosen& chosen);
void add_bench(Command app, Chosen& chosen);
void add_data(Command app, Chosen& chosen);
void add_config(Command app, Chosen& chosen);

/// CONFIG, --set and --unset of the commands that take a config.
struct ConfigArguments {
  std::string path;
  std::vector<std::string> overrides, removals;
  void add_to(Command command);
  /// Parses it; one process says what the user should know of it. \throws ConfigError
  experiment::Config read(const models::ModelKinds& models) const;
};

/// --features and --classes of the commands that can do without a data file.
struct ShapeArguments {
  std::string features;
  Index classes = 0;
  void add_to(Command command);
  std::optional<experiment::SyntheticShape> shape() const;
};

/// The config, which needs no data where shapes are given.
experiment::Config read_config_without_data(const ConfigArguments& arguments, const ShapeArguments& shapes,
                                            const models::ModelKinds& models);

}  // namespace unisono::cli
