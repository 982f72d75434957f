#pragma once

#include <memory>
#include <string>

#include "commands.hpp"
#include "unisono/jobs/trials.hpp"
#include "unisono/session/job.hpp"

namespace unisono::cli {

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
