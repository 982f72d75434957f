#include "in_place_model.hpp"

#include <fmt/format.h>

#include "metrics.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::models {

void InPlaceModel::require_gradient() const {
  throw ConfigError(
      fmt::format("model.kind = \"{}\" is updated in place and cannot compute the gradient of a batch, which this "
                  "strategy needs; use strategy.kind = \"serial\", \"hogwild\", \"averaging\", \"parameter_server\" "
                  "or, for factorization, \"stratified\"",
                  kind_));
}

void InPlaceModel::predict(const data::Batch&, ModelState, MutableView) {
  throw ConfigError(
      fmt::format("model.kind = \"{}\" makes no predictions for examples; 'unisono export' writes its vectors, and "
                  "'unisono neighbors' searches them",
                  kind_));
}

std::vector<Metric> InPlaceModel::metrics(const kernels::LossSums& sums) const {
  return {{"loss", ratio(sums.loss, sums.examples), false}};
}

}  // namespace unisono::models
