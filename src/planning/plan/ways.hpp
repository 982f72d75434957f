#pragma once

#include <string>
#include <vector>

#include "unisono/models/factory.hpp"
#include "unisono/settings/config.hpp"

namespace unisono::planning {

/// A way to train a config's model: the config with another `[strategy]`, or other replicas.
struct Way {
  std::string name;                        ///< "allreduce, eight_bit"
  bool is_close = false;                   ///< see strategies::Proposal
  std::string result = {};                 ///< how its steps differ from the serial run's
  std::vector<std::string> settings = {};  ///< keys with which the config becomes this one; empty: it is the config
  settings::Config config = {};
  bool is_asked_for = false;  ///< whether it is the config's own strategy
};

/// A way that does not suit the config.
struct UnfitWay {
  std::string name, why;
};

struct Ways {
  std::vector<Way> fit;  ///< first the config's own strategy, then those that strategies propose
  std::vector<UnfitWay> unfit;
};

/// The way with another config. \param config differs from the way's in keys of its own
Way with_config(const Way& way, settings::Config config);

/// The config with all strategies that are worth a prediction. \param models added kinds of models
Ways ways_of(const settings::Config& config, const models::ModelKinds& models);

}  // namespace unisono::planning
