#include "unisono/session/weight_average.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "unisono/base/errors.hpp"
#include "unisono/session/run_state.hpp"

namespace unisono::session {
namespace {

std::string group_of(const char* vector) { return std::string(kAverageGroup) + vector; }

}  // namespace

double kept_share(double decay, std::int64_t from, std::int64_t to) {
  double kept = 1;
  for (std::int64_t t = from + 1; t <= to; ++t) {
    kept *= std::min(decay, static_cast<double>(t - 1) / static_cast<double>(t + 8));
  }
  return kept;
}

WeightAverage::WeightAverage(ModelParts& parts, double decay)
    : parts_(parts),
      decay_(decay),
      parameters_(parts.parameters.size(), parts.backend->memory()),
      statistics_(parts.statistics.size(), parts.backend->memory()) {}

std::unique_ptr<WeightAverage> make_weight_average(ModelParts& parts, const settings::Config& config, bool in_place) {
  const double decay = config.train.weights.average;
  if (decay == 0) return nullptr;
  if (in_place) throw ConfigError("train.weight_average: this model is updated in place, without steps; remove it");
  return std::make_unique<WeightAverage>(parts, decay);
}

void WeightAverage::update(std::int64_t step) {
  const auto kept = static_cast<float>(kept_share(decay_, std::exchange(step_, step), step));
  kernels::Backend& backend = *parts_.backend;
  if (kept == 0) {
    backend.memory().copy(parts_.parameters.view(), parameters_.view());
    backend.memory().copy(parts_.statistics.view(), statistics_.view());
    return;
  }
  for (const FloatRange& segment : parts_.replica->layout().trainable()) {
    backend.axpby(1 - kept, part(parts_.parameters.view(), segment), kept, part(parameters_.view(), segment));
  }
  for (const FloatRange& segment : parts_.replica->statistics_layout().trainable()) {
    backend.axpby(1 - kept, part(parts_.statistics.view(), segment), kept, part(statistics_.view(), segment));
  }
  backend.submit();
}

StoredVectors WeightAverage::state() {
  return {stored_vector(group_of("parameters"), parts_.held.parameters, parameters_),
          stored_vector(group_of("statistics"), parts_.held.statistics, statistics_)};
}

void WeightAverage::restore(const StoredCheckpoint& stored) {
  for (const StoredVector& vector : state()) read_vector(parts_.grid.all(), stored, {vector.group}, vector);
  step_ = stored.header.step;
}

void WeightAverage::InPlace::swap() {
  if (average_ == nullptr) return;
  std::swap(parts_.parameters, average_->parameters_);
  std::swap(parts_.statistics, average_->statistics_);
}

}  // namespace unisono::session
