#include "class_weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "unisono/base/errors.hpp"

namespace unisono {
namespace {

void check_list(const std::vector<float>& weights, Index classes) {
  if (std::ssize(weights) != classes) {
    throw ConfigError(
        fmt::format("train.class_weights: {} weights are given, but the data have {} classes; set one per class, or "
                    "use \"balanced\"",
                    weights.size(), classes));
  }
  if (!std::all_of(weights.begin(), weights.end(), [](float weight) { return std::isfinite(weight); })) {
    throw ConfigError(
        "train.class_weights: a weight is too large for a float32; use smaller weights, because only their ratio "
        "matters");
  }
  if (std::all_of(weights.begin(), weights.end(), [](float weight) { return weight == 0; })) {
    throw ConfigError("train.class_weights: no class has a weight above 0, so nothing would be learned");
  }
}

}  // namespace

std::vector<float> balanced_weights(std::span<const std::int64_t> counts) {
  double examples = 0, classes = 0;
  for (const std::int64_t count : counts) {
    examples += static_cast<double>(count);
    classes += count > 0 ? 1 : 0;
  }
  std::vector<float> weights;
  for (const std::int64_t count : counts) {
    weights.push_back(count == 0 ? 1.0F : static_cast<float>(examples / (classes * static_cast<double>(count))));
  }
  return weights;
}

std::vector<float> class_weights_of(const Config& config, const Model& model, Dataset& data) {
  const TrainSettings& train = config.train;
  if (data.info().weighted && !model.takes_weights()) {
    throw ConfigError(
        fmt::format("{}: /train/weights: model.kind = \"{}\" does not support example weights; use a set without them",
                    config.data.path, config.model.kind));
  }
  const bool balanced = train.class_weight_list.empty();
  if (balanced && train.class_weights == "none") return {};
  if (!model.takes_weights()) {
    throw ConfigError(
        fmt::format("train.class_weights: model.kind = \"{}\" does not support example weights; set it to \"none\"",
                    config.model.kind));
  }
  const std::vector<std::int64_t> counts = data.class_counts();
  if (counts.empty()) {
    throw ConfigError(fmt::format("train.class_weights: {} has no labels, which class weights need; set it to \"none\"",
                                  config.data.targets == "features" ? "an autoencoder" : config.data.path));
  }
  if (balanced) return balanced_weights(counts);
  const std::vector<float> weights(train.class_weight_list.begin(), train.class_weight_list.end());
  check_list(weights, std::ssize(counts));
  return weights;
}

}  // namespace unisono
