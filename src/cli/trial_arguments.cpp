#include "trial_arguments.hpp"

#include <fmt/format.h>

#include "commands.hpp"
#include "unisono/settings/config.hpp"

namespace unisono::cli {

void TrialArguments::add_to(Command command, const std::string& what) {
  config.add_to(command);
  command.add_option("--output", options.output, fmt::format("folder of the {} (default: runs/<name>-{})", what, what))
      .type_name("DIR");
  Option goes_on = command.add_flag("--resume", resume, fmt::format("go on with the {} in the folder", what));
  command.add_flag("--overwrite", overwrite, fmt::format("replace the {} in the folder", what)).excludes(goes_on);
}

void TrialArguments::choose(const std::shared_ptr<TrialArguments>& arguments, Make* make, Chosen& chosen) {
  session::hold_stop_signals();
  chosen.together = [arguments, make, &chosen](comm::MpiSession& session, Log& log) {
    return arguments->run(make, chosen.models, session, log);
  };
}

ExitCode TrialArguments::run(Make* make, const models::ModelKinds& models, comm::MpiSession& session, Log& log) const {
  const ConfigText text = config.text();
  jobs::TrialOptions how = options;
  if (resume) how.existing = records::Existing::resume;
  if (overwrite) how.existing = records::Existing::overwrite;
  const settings::Config parsed = says_notes ? config.read(models) : settings::parse_config(text, models);
  const auto world = session.world(parsed.communication, warn_to(log));
  session::RunResult result;
  {
    session::Job job(*world, log, {.heeds_signals = true});
    result.status = make(job, text, models, how);
  }
  world->barrier();  // detects ranks that do not reach the end
  return exit_code_of(result);
}

}  // namespace unisono::cli
