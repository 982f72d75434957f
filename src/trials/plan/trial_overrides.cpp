#include "unisono/trials/trial_overrides.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plan/seeds.hpp"

namespace unisono::trials {

std::vector<std::string> trial_overrides(const search::Space& space, const TrialPlan& plan, std::int64_t seed,
                                         const records::TrialRun& training) {
  std::vector<std::string> changes;
  for (const search::Assignment& one : space.at(plan.method().point(training.trial)))
    changes.push_back(one.override_text());
  changes.push_back(fmt::format("seed={}", seed_of_trial(seed, training.trial, training.repeat)));
  return changes;
}

settings::Config config_at(const ConfigText& text, const std::vector<search::Assignment>& values,
                           const models::ModelKinds& models) {
  ConfigText trial = text;
  for (const search::Assignment& one : values) trial.overrides.push_back(one.override_text());
  return settings::parse_config(trial, models);
}

std::string trial_folder(const std::string& search, const PlanShape& shape, const records::TrialRun& training) {
  if (training.refit) return search + "/best";
  std::string path = fmt::format("{}/trials/{:04}", search, training.trial);
  if (shape.repeats > 1) path += fmt::format("/repeat-{}", training.repeat);
  if (shape.folds > 0) path += fmt::format("/fold-{}", training.fold);
  return path;
}

std::string trial_text(const search::Space& space, const TrialPlan& plan, std::int64_t trial) {
  std::vector<std::string> parts;
  for (const search::Assignment& one : space.at(plan.method().point(trial))) {
    parts.push_back(one.key + " = " + toml_text(one.value));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace unisono::trials
