#include "trials/metric.hpp"

#include <fmt/format.h>

#include "unisono/base/errors.hpp"
#include "unisono/session/losses.hpp"
#include "unisono/session/selection.hpp"

namespace unisono::jobs {

MetricThatCounts::MetricThatCounts(const std::string& key) : name_(key) {
  constexpr std::string_view kPrefix = "validation.";
  if (key == "auto") return;
  if (!key.starts_with(kPrefix) || key.size() == kPrefix.size()) {
    const bool of_test = key.starts_with("test.");
    throw ConfigError(fmt::format(
        "search.metric = \"{}\": {}; write it as in \"validation.accuracy\", or \"auto\"", key,
        of_test ? "who chooses by the test examples cannot measure with them any more how good the choice is"
                : "trials are compared by a metric of the validation examples"));
  }
  name_ = key.substr(kPrefix.size());
}

void MetricThatCounts::require(const settings::Config& config, const data::DatasetInfo& data, bool has_folds) {
  const std::vector<models::Metric> possible = session::possible_metrics(config, data, data::Split::validation);
  if (name_ == "auto") name_ = session::decisive(possible).name;
  std::string names;
  for (const models::Metric& one : possible) {
    names += (names.empty() ? "" : ", ") + one.name;
    if (one.name != name_) continue;
    larger_is_better_ = one.larger_is_better;
    names.clear();
    break;
  }
  if (!names.empty()) {
    throw ConfigError(
        fmt::format("search.metric = \"validation.{}\": this model has no such metric; it has {}", name_, names));
  }
  if (data.validation > 0 || has_folds) return;
  throw ConfigError(
      fmt::format("{} has no validation examples, by which trials are compared; hold some back with "
                  "data.validation_fraction = 0.1, or set search.cross_validate = true",
                  config.data.path));
}

}  // namespace unisono::jobs
