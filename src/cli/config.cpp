#include "unisono/session/run_plan.hpp"

#include <fmt/format.h>
#include <cstdio>

#include <memory>

#include "commands.hpp"

namespace unisono::cli {

void add_config(Command app, Chosen& chosen) {
  Command command = app.add_subcommand("config", "check a config, or list all config keys");
  command.require_subcommand();

  Command check = command.add_subcommand(
      "check", "print a config with all defaults, or the error in it, and check it against the data");
  const auto arguments = std::make_shared<ConfigArguments>();
  arguments->add_to(check);
  check.callback([arguments, &chosen] {
    chosen.alone = [arguments, &chosen] {
      const settings::Config config = arguments->read(chosen.models);
      const std::string found = unisono::session::check(config);
      fmt::print(stderr, "unisono: {}\n", found);
      fmt::print("{}", settings::effective_config(config));
    };
  });

  Command reference =
      command.add_subcommand("reference", "print every config key with meaning, unit, default and range");
  const auto markdown = std::make_shared<bool>(false);
  reference.add_flag("--markdown", *markdown, "print as Markdown (docs/config.md)");
  reference.callback([markdown, &chosen] {
    chosen.alone = [markdown, &chosen] {
      const auto format = *markdown ? ReferenceFormat::markdown : ReferenceFormat::text;
      fmt::print("{}", settings::config_reference(format, chosen.models));
    };
  });
}

}  // namespace unisono::cli
