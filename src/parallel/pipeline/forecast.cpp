#include "pipeline/formula.hpp"
#include "pipeline/priced.hpp"
#include "pipeline/timeline.hpp"

namespace unisono::parallel {
namespace {

/// The passes of a stage if all were equal.
PassSeconds mean_stage(const SimulatedCosts& costs, int stages) {
  PassSeconds sum;
  for (const PassSeconds& piece : costs.pieces) sum += piece;
  return {sum.forward / stages, sum.backward_inputs / stages, sum.backward_weights / stages};
}

}  // namespace

Forecast forecast(const PlacementProblem& problem, const Placement& placement, int columns) {
  const Prices prices(problem, placement.recompute);
  const SimulatedCosts costs = prices.costs_of(placement);
  const Simulation simulation = simulate(prices.program(), costs);
  Forecast result{.seconds = simulation.seconds,
                  .formula = formula_seconds(problem.settings.schedule, problem.stages(), problem.chunks(),
                                             problem.micro_batches, mean_stage(costs, problem.stages())),
                  .timeline = timeline_text(prices.program(), simulation, columns),
                  .svg = timeline_svg(prices.program(), simulation)};
  double busy = 0;
  for (const SimulatedStage& stage : simulation.stages) {
    busy += stage.busy;
    result.busy.push_back(stage.busy);
    result.bytes_sent.push_back(stage.bytes_sent);
  }
  result.bubble = simulation.seconds > 0 ? 1 - busy / (problem.stages() * simulation.seconds) : 0;
  return result;
}

}  // namespace unisono::parallel
