#pragma once

#include <optional>
#include <string>

#include "unisono/search/search_settings.hpp"
#include "unisono/settings/config.hpp"
#include "unisono/settings/job_settings.hpp"

namespace unisono::settings {

/// Sections of a config file that are about many trainings; empty: the file does not have it. `unisono train` checks
/// and ignores them, and a run's config.toml does not have them.
struct Plans {
  std::optional<search::SearchSettings> search;
  std::optional<CrossValidationSettings> cross_validation;
  std::optional<StudySettings> study;
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
/// Gives all keys of all plans to a visitor that describes them.
void describe_plans(ConfigVisitor& visitor);

/// Parses the sections that a config file has.
void parse_sections(ConfigVisitor& parser, Plans& plans);

}  // namespace unisono::settings
