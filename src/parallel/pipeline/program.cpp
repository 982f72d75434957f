#include "pipeline/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "pipeline/schedules.hpp"

namespace unisono::parallel {
namespace {

const char* name_of(OperationKind kind) {
  switch (kind) {
    case OperationKind::forward:
      return "forward pass";
    case OperationKind::backward:
      return "backward pass";
    case OperationKind::backward_inputs:
      return "backward pass for inputs";
    case OperationKind::backward_weights:
      return "backward pass for weights";
  }
  return "";
}

/// Which passes of each piece and micro-batch are done.
class Done {
 public:
  explicit Done(const Program& program)
      : program_(program), forward_(size_of(program), false), inputs_(size_of(program), false) {}

  bool has_all_for(int piece, const Operation& operation) const {
    const auto [kind, chunk, micro_batch] = operation;
    const auto source = program_.source_of(piece, kind);
    if (kind == OperationKind::forward) return !source || forward_[at(*source, micro_batch)];
    if (kind == OperationKind::backward_weights) return inputs_[at(piece, micro_batch)];
    return forward_[at(piece, micro_batch)] && (!source || inputs_[at(*source, micro_batch)]);
  }

  void add(int piece, const Operation& operation) {
    if (operation.kind == OperationKind::backward_weights) return;
    (operation.kind == OperationKind::forward ? forward_ : inputs_)[at(piece, operation.micro_batch)] = true;
  }

 private:
  static std::size_t size_of(const Program& program) {
    return static_cast<std::size_t>(program.pieces()) * static_cast<std::size_t>(program.micro_batches);
  }
  std::size_t at(int piece, int micro_batch) const {
    return static_cast<std::size_t>(piece) * static_cast<std::size_t>(program_.micro_batches) +
           static_cast<std::size_t>(micro_batch);
  }

  const Program& program_;
  std::vector<bool> forward_, inputs_;
};

}  // namespace

std::string text_of(const Operation& operation) {
  return fmt::format("{} of micro-batch {} in chunk {}", name_of(operation.kind), operation.micro_batch,
                     operation.chunk);
}

std::optional<int> Program::source_of(int piece, OperationKind kind) const {
  if (kind == OperationKind::backward_weights) return {};
  const int source = kind == OperationKind::forward ? piece - 1 : piece + 1;
  return source >= 0 && source < pieces() ? std::optional(source) : std::nullopt;
}

std::optional<int> Program::target_of(int piece, OperationKind kind) const {
  if (kind == OperationKind::backward_weights) return {};
  const int target = kind == OperationKind::forward ? piece + 1 : piece - 1;
  return target >= 0 && target < pieces() ? std::optional(target) : std::nullopt;
}

std::vector<OperationPlace> execution_order(const Program& program) {
  Done done(program);
  std::vector<OperationPlace> order;
  std::vector<std::size_t> next(program.ranks.size(), 0);
  std::vector<int> awake;  // stages whose next operation may have become ready
  for (int stage = program.stages; stage-- > 0;) awake.push_back(stage);
  while (!awake.empty()) {
    const int stage = awake.back();
    awake.pop_back();
    const auto rank = static_cast<std::size_t>(stage);
    for (; next[rank] < program.ranks[rank].size(); ++next[rank]) {
      const Operation& operation = program.ranks[rank][next[rank]];
      const int piece = program.piece_of(stage, operation.chunk);
      if (!done.has_all_for(piece, operation)) break;
      done.add(piece, operation);
      order.push_back({stage, next[rank]});
      if (const auto target = program.target_of(piece, operation.kind)) awake.push_back(program.stage_of(*target));
    }
  }
  for (std::size_t rank = 0; rank < next.size(); ++rank) {
    if (next[rank] == program.ranks[rank].size()) continue;
    throw std::logic_error(
        fmt::format("pipeline: stage {} waits for ever before the {}", rank, text_of(program.ranks[rank][next[rank]])));
  }
  return order;
}

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
      : program_(program), costs_(costs), free_(program.ranks.size(), 0), sent_(program.ranks.size(), 0) {
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
    const auto sender = static_cast<std::size_t>(program_.stage_of(piece));
    const double bytes = share(operation) * cost.bytes;
    sent_[sender] = std::max(sent_[sender], now) + bytes / cost.bandwidth;
    arrival = sent_[sender] + cost.latency;
    result_.stages[sender].bytes_sent += bytes;
  }

  const Program& program_;
  const SimulatedCosts& costs_;
  std::vector<double> free_;                     ///< [stages] when each is done with its last operation
  std::vector<double> sent_;                     ///< [stages] when the last byte of each has left
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

namespace {

/// The micro-batch whose pass comes next, for each kind of pass of a piece.
struct NextPasses {
  int forward = 0, inputs = 0, weights = 0;
};

/// Whether the operation is the next of its kind; counts it.
bool comes_next(NextPasses& next, const Operation& operation) {
  const int i = operation.micro_batch;
  switch (operation.kind) {
    case OperationKind::forward:
      return i == next.forward++;
    case OperationKind::backward:
      return i < next.forward && i == next.inputs++ && i == next.weights++;
    case OperationKind::backward_inputs:
      return i < next.forward && i == next.inputs++;
    case OperationKind::backward_weights:
      return i < next.inputs && i == next.weights++;
  }
  return false;
}

void require_sizes(const Program& program) {
  const bool positive = program.stages >= 1 && program.chunks >= 1 && program.micro_batches >= 1;
  if (positive && program.ranks.size() == static_cast<std::size_t>(program.stages)) return;
  throw std::logic_error(fmt::format("pipeline: no program has {} stages, {} chunks, {} micro-batches and {} lists",
                                     program.stages, program.chunks, program.micro_batches, program.ranks.size()));
}

/// Checks one stage's list: everything once, and in the order of the micro-batches.
void require_each_once(const Program& program, std::size_t stage, bool trains) {
  std::vector<NextPasses> next(static_cast<std::size_t>(program.chunks));
  for (const Operation& operation : program.ranks[stage]) {
    const bool in_range = operation.chunk >= 0 && operation.chunk < program.chunks && operation.micro_batch >= 0 &&
                          operation.micro_batch < program.micro_batches;
    if (in_range && comes_next(next[static_cast<std::size_t>(operation.chunk)], operation)) continue;
    throw std::logic_error(
        fmt::format("pipeline: stage {}: the {} is out of order or out of range", stage, text_of(operation)));
  }
  const int all = program.micro_batches;
  for (int chunk = 0; chunk < program.chunks; ++chunk) {
    const NextPasses& passes = next[static_cast<std::size_t>(chunk)];
    const auto require_all = [&](OperationKind kind, int count, int wanted) {
      if (count == wanted) return;
      throw std::logic_error(
          fmt::format("pipeline: stage {}: the {} is missing", stage, text_of({kind, chunk, count})));
    };
    require_all(OperationKind::forward, passes.forward, all);
    require_all(OperationKind::backward_inputs, passes.inputs, trains ? all : 0);
    require_all(OperationKind::backward_weights, passes.weights, trains ? all : 0);
  }
}

bool has_backward_passes(const Program& program) {
  for (const auto& operations : program.ranks) {
    for (const Operation& operation : operations) {
      if (operation.kind != OperationKind::forward) return true;
    }
  }
  return false;
}

}  // namespace

void require_valid(const Program& program) {
  require_sizes(program);
  const bool trains = has_backward_passes(program);
  for (std::size_t stage = 0; stage < program.ranks.size(); ++stage) require_each_once(program, stage, trains);
  execution_order(program);
}

}  // namespace unisono::parallel
