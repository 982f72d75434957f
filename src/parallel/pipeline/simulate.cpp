#include "pipeline/simulate.hpp"

#include <algorithm>
#include <stdexcept>

#include "pipeline/flights.hpp"

namespace unisono::parallel {
namespace {

double seconds_of(OperationKind kind, const PassSeconds& seconds) {
  switch (kind) {
    case OperationKind::forward:
      return seconds.forward;
    case OperationKind::backward_inputs:
      return seconds.backward_inputs;
    case OperationKind::backward_weights:
      return seconds.backward_weights;
    default:
      return seconds.backward_inputs + seconds.backward_weights;
  }
}

/// Runs a program's operations in any order that their needs allow.
class Simulator {
 public:
  Simulator(const Program& program, const SimulatedCosts& costs)
      : program_(program), costs_(costs), free_(program.ranks.size(), 0) {
    const auto size = static_cast<std::size_t>(program.pieces()) * static_cast<std::size_t>(program.micro_batches);
    activations_.resize(size, 0);
    gradients_.resize(size, 0);
    result_.stages.resize(program.ranks.size());
    for (const auto& operations : program.ranks) result_.times.emplace_back(operations.size());
  }

  void run(OperationPlace place) {
    const auto rank = static_cast<std::size_t>(place.stage);
    const Operation& operation = program_.ranks[rank][place.index];
    const int piece = program_.piece_of(place.stage, operation.chunk);
    const double seconds =
        share(operation) * seconds_of(operation.kind, costs_.pieces[static_cast<std::size_t>(piece)]);
    const double start = std::max(free_[rank], arrival(piece, operation));
    result_.times[rank][place.index] = {start, start + seconds};
    result_.stages[rank].busy += seconds;
    result_.seconds = std::max(result_.seconds, free_[rank] = start + seconds);
    send(piece, operation, start + seconds);
  }

  Simulation finish() {
    for (int stage = 0; stage < program_.stages; ++stage) {
      SimulatedStage& result = result_.stages[static_cast<std::size_t>(stage)];
      result.idle = result_.seconds - result.busy;
      result.flights = peak_of_flights(program_, stage);
      for (int chunk = 0; chunk < program_.chunks; ++chunk) {
        result.chunk_flights.push_back(peak_of_flights(program_, stage, chunk));
      }
    }
    return std::move(result_);
  }

 private:
  double share(const Operation& operation) const {
    return costs_.shares.empty() ? 1 : costs_.shares[static_cast<std::size_t>(operation.micro_batch)];
  }
  /// When the values of a boundary are there, for all passes in one direction.
  double& arrived(OperationKind kind, int boundary, int micro_batch) {
    auto& times = kind == OperationKind::forward ? activations_ : gradients_;
    return times[static_cast<std::size_t>(boundary) * static_cast<std::size_t>(program_.micro_batches) +
                 static_cast<std::size_t>(micro_batch)];
  }
  double arrival(int piece, const Operation& operation) {
    const auto source = program_.source_of(piece, operation.kind);
    return source ? arrived(operation.kind, std::min(piece, *source), operation.micro_batch) : 0;
  }

  void send(int piece, const Operation& operation, double now) {
    const auto target = program_.target_of(piece, operation.kind);
    if (!target) return;
    const int boundary = std::min(piece, *target);
    double& arrival = arrived(operation.kind, boundary, operation.micro_batch) = now;
    if (costs_.boundaries.empty() || program_.stage_of(*target) == program_.stage_of(piece)) return;
    const BoundaryCost& cost = costs_.boundaries[static_cast<std::size_t>(boundary)];
    const double bytes = share(operation) * cost.bytes;
    arrival += cost.latency + bytes / cost.bandwidth;
    result_.stages[static_cast<std::size_t>(program_.stage_of(piece))].bytes_sent += bytes;
  }

  const Program& program_;
  const SimulatedCosts& costs_;
  std::vector<double> free_;                     ///< [stages] when each is done with its last operation
  std::vector<double> activations_, gradients_;  ///< [boundary][micro-batch]
  Simulation result_;
};

void require_sizes(const Program& program, const SimulatedCosts& costs) {
  const auto pieces = static_cast<std::size_t>(program.pieces());
  const bool fit = costs.pieces.size() == pieces &&
                   (costs.boundaries.empty() || costs.boundaries.size() == pieces - 1) &&
                   (costs.shares.empty() || costs.shares.size() == static_cast<std::size_t>(program.micro_batches));
  if (!fit) throw std::logic_error("pipeline: costs of another program");
}

}  // namespace

SimulatedCosts equal_costs(int stages, int chunks, const PassSeconds& stage) {
  const PassSeconds piece{stage.forward / chunks, stage.backward_inputs / chunks, stage.backward_weights / chunks};
  return {.pieces = std::vector(static_cast<std::size_t>(stages) * static_cast<std::size_t>(chunks), piece)};
}

Simulation simulate(const Program& program, const SimulatedCosts& costs) {
  require_sizes(program, costs);
  Simulator simulator(program, costs);
  for (const OperationPlace place : execution_order(program)) simulator.run(place);
  return simulator.finish();
}

}  // namespace unisono::parallel
