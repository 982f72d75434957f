#include "unisono/experiment/config.hpp"

#include <fmt/format.h>
#include <cstdio>

#include <memory>

#include "commands.hpp"

namespace unisono::cli {

void add_config(CLI::App& app, Chosen& chosen) {
  CLI::App& command = *app.add_subcommand("config", "check a config, or list all config keys");
  command.require_subcommand(1);

  CLI::App& check = *command.add_subcommand("check", "check a config and print it with all defaults");
  const auto arguments = std::make_shared<ConfigArguments>();
  arguments->add_to(check);
  check.callback([arguments, &chosen] {
    chosen.alone = [arguments, &chosen] {
      const ConfigText text = read_config(arguments->path, arguments->overrides);
      fmt::print("{}", effective_config(parse_config(text, chosen.models)));
    };
  });

  CLI::App& reference =
      *command.add_subcommand("reference", "print every config key with meaning, unit, default and range");
  const auto markdown = std::make_shared<bool>(false);
  reference.add_flag("--markdown", *markdown, "print as Markdown (docs/config.md)");
  reference.callback([markdown, &chosen] {
    chosen.alone = [markdown, &chosen] {
      const auto format = *markdown ? ReferenceFormat::markdown : ReferenceFormat::text;
      fmt::print("{}", config_reference(format, chosen.models));
    };
  });
}

}  // namespace unisono::cli
