#include "unisono/session/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "machine/model_parts.hpp"
#include "unisono/records/progress.hpp"
#include "unisono/session/abilities.hpp"
#include "unisono/session/device.hpp"
#include "unisono/session/method.hpp"
#include "unisono/session/model_of_config.hpp"
#include "unisono/session/model_parts.hpp"
#include "unisono/session/selection.hpp"
#include "unisono/session/settled.hpp"
#include "unisono/session/stored_checkpoint.hpp"

namespace unisono::session {

std::string check(const settings::Config& given, int ranks, bool with_folds) {
  const std::string& path = given.data.path;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    return fmt::format("{} does not exist: the config is valid, but was not checked against the data", path);
  }
  data::DatasetInfo data = data::inspect_dataset(given.data);
  if (with_folds) data.validation = std::max<std::int64_t>(data.validation, 1);
  const settings::Config config = settle(given, data).config;
  require_way_to_device(config);
  ModelOfConfig parts(config, data);
  models::Model& model = parts.model();
  parts.strategy().require(model, std::max(1, ranks / config.stages()));
  require_method(config, model, data);
  require_placeable(config, model, parts.backend());
  if (!config.is_placed_automatically()) make_stages(config, model, parts.backend(), /*replicas=*/1);
  require_divisible_steps(config, parts.strategy(), model);
  if (!config.whole_batch()) optimizer_settings(config, parts.strategy(), model);
  require_class_weights(config, model, data);
  criteria_of(config, model, data);
  if (const std::string& other = config.train.weights.initialise_from; !other.empty()) require_checkpoint(other);
  return fmt::format("{} fits: {} training, {} validation and {} test examples; the model has {} parameters", path,
                     grouped(data.train), grouped(data.validation), grouped(data.test),
                     grouped(model.layout().parameters()));
}

}  // namespace unisono::session
