#pragma once

#include <string>

#include "commands.hpp"
#include "unisono/experiment/job.hpp"
#include "unisono/experiment/search.hpp"

namespace unisono::cli {

/// The arguments of commands that make many trainings: CONFIG, --output, --resume, --overwrite.
struct TrialArguments {
  ConfigArguments config;
  experiment::TrialOptions options;
  bool resume = false, overwrite = false;

  /// \param what "search"
  void add_to(Command command, const std::string& what);

  using Make = experiment::RunStatus(experiment::Job&, const ConfigText&, const models::ModelKinds&,
                                     const experiment::TrialOptions&);
  /// \return the exit code of the command
  ExitCode run(Make* make, const models::ModelKinds& models, comm::MpiSession& session, Log& log) const;
};

}  // namespace unisono::cli
