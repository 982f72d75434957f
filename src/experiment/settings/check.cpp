#include "unisono/experiment/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "checkpoint/stored_checkpoint.hpp"
#include "machine/abilities.hpp"
#include "machine/device.hpp"
#include "machine/method.hpp"
#include "machine/model_of_config.hpp"
#include "machine/parts.hpp"
#include "run/class_weights.hpp"
#include "run/progress.hpp"
#include "run/selection.hpp"

namespace unisono::experiment {

std::string check(const Config& given, int ranks, bool with_folds) {
  const std::string& path = given.data.path;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    return fmt::format("{} does not exist: the config is valid, but was not checked against the data", path);
  }
  Config config = given;
  data::DatasetInfo data = data::inspect_dataset(config.data);
  if (with_folds) data.validation = std::max<std::int64_t>(data.validation, 1);
  settle(config, data);
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

}  // namespace unisono::experiment
