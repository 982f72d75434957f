#pragma once

#include <cstdint>
#include <string>

#include "unisono/base/config.hpp"
#include "unisono/data/dataset.hpp"

// What a run decides by its evaluations.

namespace unisono::settings {

/// `[checkpoint.best]`: by what the best checkpoint is chosen.
struct BestSettings {
  std::string metric = "auto";  ///< a name in Model::metrics; auto: the accuracy where there is one, else the loss
  data::Split on = data::Split::validation;
  void describe(ConfigVisitor& visitor);
};

/// `[train.early_stopping]`
struct EarlyStoppingSettings {
  std::string metric = "auto";  ///< as in BestSettings
  data::Split on = data::Split::validation;
  std::int64_t patience = 0;  ///< evaluations without an improvement; 0: the run never stops early
  double min_delta = 0;       ///< how much better counts as an improvement
  bool is_on() const { return patience > 0; }
  void describe(ConfigVisitor& visitor);
};

}  // namespace unisono::settings
