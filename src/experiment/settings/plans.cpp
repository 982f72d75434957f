#include "unisono/experiment/plans.hpp"

namespace unisono::experiment {

void Plans::describe(ConfigVisitor& visitor) {
  visitor.section({.name = "search", .meaning = "what `unisono search` tries"}, search);
}

std::string effective_plans(const Plans& plans) {
  Plans copy = plans;  // `describe` is not const
  return unisono::effective_config([&](ConfigVisitor& visitor) { copy.describe(visitor); });
}

}  // namespace unisono::experiment
