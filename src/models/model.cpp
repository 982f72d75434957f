#include "unisono/models/model.hpp"

#include <stdexcept>

#include "unisono/base/errors.hpp"

namespace unisono::models {

void Model::initialise_held(std::uint64_t seed, const HeldModel& held, ModelState state) const {
  if (!held.parameters.held_by_all())
    throw std::logic_error("a model of which a rank holds a part needs initialise_held");
  initialise(seed, state);
}

void Model::predict_layer(const std::string&) {
  throw ConfigError("--layer: only networks (model.kind = \"network\") have layers whose outputs can be written");
}

}  // namespace unisono::models
