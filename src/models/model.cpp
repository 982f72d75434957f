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

void Model::predict_layer(const std::string&) {
  throw ConfigError("--layer: only networks (model.kind = \"network\") have layers whose outputs can be written");
}

}  // namespace unisono::models
