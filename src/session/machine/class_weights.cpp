#include "machine/class_weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "unisono/base/errors.hpp"
#include "unisono/base/text.hpp"

namespace unisono::session {
namespace {

std::vector<float> listed_weights(const settings::TrainSettings& train) {
  return {train.class_weight_list.begin(), train.class_weight_list.end()};
}

void check_list(const std::vector<float>& weights, Index classes) {
  if (std::ssize(weights) != classes) {
    throw ConfigError(fmt::format(
        "train.class_weights: {} {} given, but the data have {}; set one per class, or use \"balanced\"",
        count_of(std::ssize(weights), "weight"), weights.size() == 1 ? "is" : "are", count_of(classes, "class")));
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

void require_class_weights(const settings::Config& config, const models::Model& model, const data::DatasetInfo& data) {
  const settings::TrainSettings& train = config.train;
  if (data.weighted && !model.takes_weights()) {
    throw ConfigError(
        fmt::format("{}: /train/weights: model.kind = \"{}\" does not support example weights; use a set without them",
                    config.data.path, config.model.kind));
  }
  const bool balanced = train.class_weight_list.empty();
  if (balanced && train.class_weights == settings::ClassWeights::none) return;
  if (!model.takes_weights()) {
    throw ConfigError(
        fmt::format("train.class_weights: model.kind = \"{}\" does not support example weights; set it to \"none\"",
                    config.model.kind));
  }
  if (data.classes == 0) {
    throw ConfigError(
        fmt::format("train.class_weights: {} has no labels, which class weights need; set it to \"none\"",
                    config.data.targets == data::Targets::features ? "an autoencoder" : config.data.path));
  }
  if (!balanced) check_list(listed_weights(train), data.classes);
}

std::vector<float> class_weights_of(const settings::Config& config, const models::Model& model, data::Dataset& data) {
  require_class_weights(config, model, data.info());
  const settings::TrainSettings& train = config.train;
  if (!train.class_weight_list.empty()) return listed_weights(train);
  return train.class_weights == settings::ClassWeights::none ? std::vector<float>{}
                                                             : balanced_weights(data.class_counts());
}

}  // namespace unisono::session
