#include <fmt/format.h>

#include <cstdio>

#include "commands.hpp"

namespace unisono::cli {

void ConfigArguments::add_to(Command command) {
  command.add_option("config", path, "config file (TOML); 'unisono config reference' lists its keys")
      .required()
      .type_name("CONFIG");
  command
      .add_option(
          "--set", overrides,
          "set a config key, overriding the file, e.g. --set train.epochs=3; may be repeated. Setting another kind, "
          "e.g. --set optimizer.kind=adam, drops the keys that only the file's kind has")
      .type_name("KEY=VALUE")
      .repeated();
  command
      .add_option(
          "--unset", removals,
          "remove a key from the config, so that its default applies, e.g. --unset optimizer.momentum; may be repeated")
      .type_name("KEY")
      .repeated();
}

settings::Config ConfigArguments::read(const models::ModelKinds& models) const {
  settings::Config config = settings::parse_config(read_config(path, overrides, removals), models);
  if (!comm::is_first_of_launch()) return config;
  for (const std::string& note : config.notes) fmt::print(stderr, "unisono: {}\n", note);
  return config;
}

}  // namespace unisono::cli
