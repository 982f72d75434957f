#include <fmt/format.h>

#include <algorithm>

#include "study/metric.hpp"
#include "unisono/session/evaluator.hpp"
#include "unisono/session/losses.hpp"
#include "unisono/session/selection.hpp"

namespace unisono::jobs {
namespace {

std::string names_of(const std::vector<models::Metric>& metrics) {
  std::string names;
  for (const models::Metric& metric : metrics) names += (names.empty() ? "" : ", ") + metric.name;
  return names;
}

}  // namespace

trials::StudyMetric metric_of(const settings::Config& config, const std::string& wanted) {
  const data::DatasetInfo data = data::inspect_dataset(config.data);
  if (wanted == "auto") {
    const data::Split split = session::watched_split(data);
    if (session::examples_of(data, split) == 0) {
      throw ConfigError(
          config.data.path +
          " has neither validation nor test examples, by which a study could compare; hold some back with "
          "data.validation_fraction = 0.1");
    }
    const models::Metric metric = session::decisive(session::possible_metrics(config, data, split));
    return {split, metric.name, metric.larger_is_better};
  }
  const std::size_t dot = wanted.find('.');
  const auto split = std::ranges::find(data::kSplits, wanted.substr(0, dot), [](data::Split s) { return name_of(s); });
  const std::string what = fmt::format("study.metric = \"{}\"", wanted);
  if (dot == std::string::npos || split == data::kSplits.end())
    throw ConfigError(what + ": a set and a metric are expected, as in \"validation.accuracy\", \"test.loss\"");
  if (session::examples_of(data, *split) == 0) {
    throw ConfigError(fmt::format("{}: {} has no {} examples", what, config.data.path, data::name_of(*split)));
  }
  const std::vector<models::Metric> metrics = session::possible_metrics(config, data, *split);
  const auto metric = std::ranges::find(metrics, wanted.substr(dot + 1), &models::Metric::name);
  if (metric == metrics.end())
    throw ConfigError(fmt::format("{}: this model has no such metric; it has {}", what, names_of(metrics)));
  return {*split, metric->name, metric->larger_is_better};
}

}  // namespace unisono::jobs
