#include <memory>

#include "commands.hpp"
#include "unisono/session/run.hpp"

namespace unisono::cli {

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
      world->barrier();
      return code;
    };
  });
}

}  // namespace unisono::cli
