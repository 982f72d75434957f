#include "plan/workers.hpp"

#include "unisono/base/errors.hpp"
#include "unisono/optim/optimizer.hpp"

// How long a step takes where T threads of a rank make steps of their own on one model:
//   (gradient + update + reading the model, and adding to it) / T
// These are as measured for a thread while all T compute. What threads take from each other by writing to the same
// model is not known.
namespace unisono::planning {

Prediction predict_workers(const Planned& planned, const Way& way) {
  const Profile& profile = planned.profile;
  if (profile.workers.examples.empty()) {
    throw ConfigError(
        "the profile does not say how long threads take that make steps of their own; measure with this strategy on "
        "one rank, with memory for as many models as threads");
  }
  const auto threads = static_cast<double>(profile.threads);
  const auto examples = static_cast<double>(way.config.train.batch_size);
  const int states = optim::optimizer_state_vectors(way.config.optimizer);
  const auto traffic = strategies::make_strategy(way.config.strategy)->traffic(planned.model, 1, states, planned.data);
  Prediction made;
  made.examples = way.config.train.batch_size;
  made.gradient = profile.workers.gradients().at(examples) / threads;
  const double touching =
      touching_seconds(profile.workers, examples, states, planned.model.layout().size(), traffic->touched_floats);
  made.update = (profile.workers.updates().at(examples) + touching) / threads;
  made.set_speed(profile, examples, examples);
  settings::Config config = way.config;
  config.strategy.threads = profile.threads;
  made.memory_bytes = memory_of_rank(planned, config, made.ranks);
  return made;
}

}  // namespace unisono::planning
