// Alternating least squares, for models of two tables: strategies/batch/alternating.cpp makes the iterations, and
// models/objective.hpp says what it minimises.
#include "unisono/optim/catalog.hpp"

namespace unisono::optim {
namespace {

void describe_als(OptimizerSettings& settings, ConfigVisitor& visitor) {
  visitor.field({.name = "function_tolerance",
                 .meaning = "the run ends after an iteration that changes the objective by at most this, relative to "
                            "it; 0: it makes all its epochs",
                 .minimum = 0},
                settings.own.of<AlsSettings>().function_tolerance);
}

std::vector<std::string> no_state(const OptimizerSettings&) { return {}; }

}  // namespace

OptimizerKind als() {
  return {.name = "als",
          .meaning = "alternating least squares on the whole training set, for model.kind = \"factorization\"",
          .describe = describe_als,
          .state = no_state,
          .traits = {.whole_batch = true, .alternating = true}};
}

}  // namespace unisono::optim
