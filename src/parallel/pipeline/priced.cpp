#include "pipeline/priced.hpp"

#include <algorithm>
#include <numeric>

#include "pipeline/schedules.hpp"
#include "unisono/base/median.hpp"
#include "unisono/parallel/pipeline.hpp"
#include "unisono/tensor/exact_sum.hpp"

namespace unisono::parallel {
namespace {

std::size_t index_of(int i) { return static_cast<std::size_t>(i); }

PassSeconds difference(const PassSeconds& a, const PassSeconds& b) {
  return {a.forward - b.forward, a.backward_inputs - b.backward_inputs, a.backward_weights - b.backward_weights};
}

ReplicaSettings with(ReplicaSettings settings, Recompute recompute) {
  settings.recompute = recompute;
  return settings;
}

}  // namespace

Prices::Prices(const PlacementProblem& problem, Recompute recompute)
    : problem_(problem),
      recompute_(recompute),
      program_(make_program(problem.settings.schedule, problem.stages(), problem.chunks(), problem.micro_batches)) {
  const ReplicaSettings settings = with(problem.settings, recompute);
  for (int stage = 0; stage < problem.stages(); ++stage) {
    flights_.push_back(flights_of(settings, stage, problem.micro_batches));
  }
  for (const auto& segments : problem.seconds) {
    std::vector<PassSeconds> before(1);
    for (const PassSeconds& segment : segments) before.push_back(PassSeconds(before.back()) += segment);
    before_.push_back(std::move(before));
  }
  const int n = problem.segments();
  memory_.resize(index_of((n + 1) * (n + 1)));
  for (int first = 0; first < n; ++first) {
    for (int last = first + 1; last <= n; ++last)
      memory_[index_of(first * (n + 1) + last)] = problem.memory(first, last);
  }
}

const PieceMemory& Prices::memory(int first, int last) const {
  return memory_[index_of(first * (problem_.segments() + 1) + last)];
}

double Prices::seconds(int rank, int first, int last) const {
  const PassSeconds passes =
      difference(before_[index_of(rank)][index_of(last)], before_[index_of(rank)][index_of(first)]);
  return passes.sum() + (recompute_ == Recompute::all ? passes.forward : 0);
}

double Prices::bytes(int stage, int chunk, int first, int last) const {
  const PieceMemory& piece = memory(first, last);
  const StageFlights::Chunk& flights = flights_[index_of(stage)].chunks[index_of(chunk)];
  return piece.vectors + flights.workspaces * piece.workspace + flights.inputs * piece.input;
}

double Prices::seconds_alone(int rank, int first, int last) const {
  double seconds = this->seconds(rank, first, last);
  if (problem_.settings.schedule == PipelineSchedule::zero_bubble) {
    seconds -=
        difference(before_[index_of(rank)][index_of(last)], before_[index_of(rank)][index_of(first)]).backward_weights;
  }
  if (first == 0) return seconds;
  const BoundaryCost& boundary = problem_.boundaries[index_of(first - 1)];
  return seconds + 2 * (boundary.latency + boundary.bytes / boundary.bandwidth);
}

double Prices::free_bytes(int rank) const { return problem_.limits[index_of(rank)] - problem_.bytes_of_each; }

SimulatedCosts Prices::costs_of(const Placement& placement) const {
  SimulatedCosts costs;
  for (int p = 0; p < problem_.pieces(); ++p) {
    const auto& before = before_[index_of(placement.ranks[index_of(p % problem_.stages())])];
    PassSeconds passes =
        difference(before[index_of(placement.cuts[index_of(p + 1)])], before[index_of(placement.cuts[index_of(p)])]);
    if (recompute_ == Recompute::all) passes.backward_inputs += passes.forward;
    costs.pieces.push_back(passes);
    if (p > 0) costs.boundaries.push_back(problem_.boundaries[index_of(placement.cuts[index_of(p)] - 1)]);
  }
  return costs;
}

Placement Prices::priced(Placement placement) const {
  placement.recompute = recompute_;
  placement.seconds = simulate(program_, costs_of(placement)).seconds;
  placement.bytes.assign(index_of(problem_.stages()), problem_.bytes_of_each);
  for (int p = 0; p < problem_.pieces(); ++p) {
    const int stage = p % problem_.stages();
    placement.bytes[index_of(stage)] +=
        bytes(stage, p / problem_.stages(), placement.cuts[index_of(p)], placement.cuts[index_of(p + 1)]);
  }
  return placement;
}

Placement priced(const PlacementProblem& problem, Placement placement) {
  return Prices(problem, placement.recompute).priced(std::move(placement));
}

std::optional<Placement::Lack> Placement::lack(const std::vector<double>& limits) const {
  std::optional<Lack> most;
  for (std::size_t stage = 0; stage < bytes.size(); ++stage) {
    const double missing = bytes[stage] - limits[index_of(ranks[stage])];
    if (missing > 0 && (!most || missing > most->bytes)) most = {static_cast<int>(stage), missing};
  }
  return most;
}

bool Better::operator()(const Placement& a, const Placement& b) const {
  const auto missing = [this](const Placement& one) {
    const auto lack = one.lack(problem.limits);
    return lack ? lack->bytes : 0;
  };
  const double missing_a = missing(a), missing_b = missing(b);
  if (missing_a != missing_b) return missing_a < missing_b;
  return a.seconds < b.seconds * (1 - 1e-9);  // of equals the one that was found first
}

namespace {

constexpr std::size_t kRepetitions = 5;        // after one that warms up
constexpr Index kMostOthers = Index{4} << 20;  // floats: what the caches of usual CPUs cannot keep

/// One segment with values of its own.
class Probe {
 public:
  /// \param others memory that the other segments of a step touch: between two passes of a segment
  /// \param tied_floats of the weights that the segment has in common with another; 0: none
  Probe(const nn::Piece& piece, bool is_first, kernels::Backend& backend, Index batch, MutableView others,
        Index tied_floats)
      : others_(others),
        piece_(piece),
        is_first_(is_first),
        backend_(backend),
        batch_(batch),
        plan_(piece.plan(batch, nn::PassKind::halves)),
        memory_(filled(plan_.floats, 0)),
        parameters_(filled(size_of(piece.parameters()), 0.01F)),
        gradient_(filled(size_of(piece.parameters()), 0)),
        statistics_(filled(size_of(piece.statistics()), 1)),
        inputs_(is_first ? Buffer(batch * piece.in().extent.size()) : Buffer()),
        tied_weight_(filled(tied_floats, 0.01F)),
        tied_gradient_(filled(tied_floats, 0)),
        tokens_(static_cast<std::size_t>(batch * piece.in().rows)),
        row_numbers_(tokens_.size()),
        examples_(static_cast<std::size_t>(batch)) {
    std::ranges::fill(inputs_.view(), 0.5F);
    std::iota(examples_.begin(), examples_.end(), std::uint64_t{0});
    std::iota(row_numbers_.begin(), row_numbers_.end(), std::uint64_t{0});
  }

  PassSeconds time(const Clock& clock) {
    const nn::Workspace workspace{plan_, memory_.view()};
    kernels::LossSums sums;
    const nn::LossTerms loss{.labels = tokens_, .scale = 1, .sums = sums};
    const nn::TiedWeights tied{.weight = tied_weight_.view(), .gradient = tied_gradient_.view()};
    const nn::Pass pass{.backend = backend_,
                        .reducer = alone_,
                        .parameters = parameters_.view(),
                        .statistics = statistics_.view(),
                        .training = true,
                        .batch = batch_,
                        .examples = examples_,
                        .first_parameter = piece_.parameters().first,
                        .first_statistic = piece_.statistics().first,
                        .updates_statistics = false,
                        .row_numbers = row_numbers_,
                        .loss = &loss,
                        .tied = tied_weight_.size() > 0 ? &tied : nullptr};
    PassSeconds seconds;
    use_others();
    if (!is_first_) std::ranges::fill(piece_.input(workspace), 0.5F);
    const Stopwatch forward(clock);
    is_first_ ? piece_.forward(pass, {.values = inputs_.view(), .tokens = tokens_}, workspace)
              : piece_.forward(pass, workspace);
    seconds.forward = forward.seconds();
    use_others();
    std::ranges::fill(piece_.output_gradient(workspace), 0.01F);
    const Stopwatch inputs(clock);
    piece_.backward_inputs(pass, workspace);
    seconds.backward_inputs = inputs.seconds();
    const Stopwatch weights(clock);
    piece_.backward_weights(pass, workspace, gradient_.view(), kernels::Write::add, {});
    seconds.backward_weights = weights.seconds();
    return seconds;
  }

 private:
  /// Leaves the segment's parameters where they are when its turn comes again in a step: not in the fastest cache.
  void use_others() {
    for (float& value : others_) value += 1;
  }
  static Index size_of(const FloatRange& range) { return range.last - range.first; }
  Buffer filled(Index floats, float value) const {
    Buffer buffer(floats, backend_.memory());
    std::ranges::fill(buffer.view(), value);
    return buffer;
  }

  MutableView others_;
  const nn::Piece& piece_;
  bool is_first_;
  kernels::Backend& backend_;
  Index batch_;
  nn::WorkspacePlan plan_;
  Buffer memory_, parameters_, gradient_, statistics_, inputs_, tied_weight_, tied_gradient_;
  std::vector<std::int32_t> tokens_;  ///< all are token 0
  std::vector<std::uint64_t> row_numbers_;
  std::vector<std::uint64_t> examples_;
  LocalReducer alone_;
};

PassSeconds median(const std::vector<PassSeconds>& all) {
  const auto of = [&all](double PassSeconds::*pass) {
    std::vector<double> values;
    for (const PassSeconds& one : all) values.push_back(one.*pass);
    return median_of(std::move(values));
  };
  return {of(&PassSeconds::forward), of(&PassSeconds::backward_inputs), of(&PassSeconds::backward_weights)};
}

}  // namespace

std::vector<PassSeconds> time_segments(const models::Staged& model, kernels::Backend& backend, Index batch,
                                       const Clock& clock) {
  const int segments = static_cast<int>(model.network().cut_points().size()) + 1;
  Buffer others(std::min(2 * model.network().parameters().size(), kMostOthers));
  std::vector<PassSeconds> seconds;
  for (int i = 0; i < segments; ++i) {
    const nn::Piece piece = model.network().piece(i, i + 1);
    const bool tied = i == 0 || i + 1 == segments;
    Probe probe(piece, i == 0, backend, batch, others.view(), tied ? model.network().tied_floats() : 0);
    probe.time(clock);
    std::vector<PassSeconds> all(kRepetitions);
    for (PassSeconds& one : all) one = probe.time(clock);
    seconds.push_back(median(all));
  }
  return seconds;
}

}  // namespace unisono::parallel
