#include "unisono/models/model.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include "unisono/base/errors.hpp"

namespace unisono::models {

bool is_metric(std::string_view name) {
  return std::ranges::find(kMetricKinds, name, &MetricKind::name) != std::end(kMetricKinds);
}

Metric metric_of(std::string_view name, double value) {
  const auto* const kind = std::ranges::find(kMetricKinds, name, &MetricKind::name);
  if (kind == std::end(kMetricKinds)) throw std::logic_error("a metric is not in the table: " + std::string(name));
  return {std::string(name), value, kind->larger_is_better};
}

void Model::initialise_held(std::uint64_t seed, const HeldModel& held, ModelState state) const {
  if (!held.parameters.held_by_all())
    throw std::logic_error("a model of which a rank holds a part needs initialise_held");
  initialise(seed, state);
}

void Model::predict_layer(const std::string&) {
  throw ConfigError("--layer: only networks (model.kind = \"network\") have layers whose outputs can be written");
}

}  // namespace unisono::models
