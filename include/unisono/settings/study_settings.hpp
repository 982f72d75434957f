#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unisono/base/config.hpp"

namespace unisono::settings {

/// `[study]`: the same experiment in many variants, each compared with the serial run.
struct StudySettings {
  std::int64_t seeds = 5;
  double margin = 0;            ///< of the metric: closer than this is equivalent
  std::string metric = "auto";  ///< "validation.accuracy"; auto: the accuracy where there is one, else the loss
  std::vector<double> target;   ///< of the metric, for the time to target; one number, or none: …
  std::string target_word = "serial";
  bool optimum = true;   ///< whether convex models are also compared with their minimum
  ConfigValue variants;  ///< an array of tables: keys of the config, and name, ranks, threads

  void describe(ConfigVisitor& visitor);
};

}  // namespace unisono::settings
