#include "commands.hpp"

namespace unisono::cli {

void ConfigArguments::add_to(CLI::App& command) {
  command.add_option("config", path, "config file (TOML); 'unisono config reference' lists its keys")
      ->required()
      ->type_name("CONFIG");
  command
      .add_option("--set", overrides,
                  "set a config key, overriding the file, e.g. --set train.epochs=3; may be repeated")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

}  // namespace unisono::cli
