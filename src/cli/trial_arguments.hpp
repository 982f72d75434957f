#pragma once

#include <string>

#include "commands.hpp"
#include "unisono/jobs/search.hpp"
#include "unisono/session/job.hpp"

namespace unisono::cli {

/// The arguments of commands that make many trainings: CONFIG, --output, --resume, --overwrite.
struct TrialArguments {
  ConfigArguments config;
  jobs::TrialOptions options;
  bool resume = false, overwrite = false;

  /// \param what "search"
  void add_to(Command command, const std::string& what);

  using Make = session::RunStatus(session::Job&, const ConfigText&, const models::ModelKinds&,
                                  const jobs::TrialOptions&);
  /// \return the exit code of the command
  ExitCode run(Make* make, const models::ModelKinds& models, comm::MpiSession& session, Log& log) const;
};

}  // namespace unisono::cli
