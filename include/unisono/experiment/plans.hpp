#pragma once

#include <string>

#include "unisono/experiment/config.hpp"
#include "unisono/experiment/search_settings.hpp"

namespace unisono::experiment {

/// Sections of a config file that are about many trainings. `unisono train` ignores them, and a run's config.toml does
/// not have them.
struct Plans {
  SearchSettings search;
  void describe(ConfigVisitor& visitor);
};

/// A config file with its plans.
struct PlannedConfig {
  Config config;
  Plans plans;
};

/// \throws ConfigError
PlannedConfig parse_plans(const ConfigText& text, const models::ModelKinds& models = {});
/// The plans' sections as TOML: every key in force.
std::string effective_plans(const Plans& plans);

}  // namespace unisono::experiment
