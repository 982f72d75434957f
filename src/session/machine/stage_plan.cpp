#include "unisono/session/stage_plan.hpp"

#include <algorithm>
#include <limits>

#include "unisono/optim/optimizer.hpp"
#include "unisono/session/model_parts.hpp"

namespace unisono::session {
namespace {

constexpr std::int64_t kFloatBytes = sizeof(float);
constexpr double kNoStep = std::numeric_limits<double>::infinity();

std::int64_t size_of(const FloatRange& range) { return range.last - range.first; }

void add(std::vector<MemoryItem>& to, const std::vector<MemoryItem>& items) {
  for (const MemoryItem& item : items) {
    const auto same = std::ranges::find(to, item.what, &MemoryItem::what);
    if (same == to.end()) {
      to.push_back(item);
    } else {
      same->bytes += item.bytes;
    }
  }
}

}  // namespace

StagePlan::StagePlan(const settings::Config& config, const models::Model& model, const kernels::Backend& backend,
                     const data::DatasetInfo& data, const strategies::Strategy& strategy, RankAbilities abilities)
    : config_(config),
      model_(model),
      backend_(backend),
      data_(data),
      strategy_(strategy),
      abilities_(std::move(abilities)),
      points_(model.staged()->network().cut_points()),
      optimizer_states_(optim::optimizer_state_vectors(config.optimizer)),
      states_(optimizer_states_ + parallel::vectors_of_parameters(strategy.state_vectors())) {}

RankAbilities on_ranks(RankAbilities abilities, int ranks) {
  abilities.ranks = ranks;
  const auto count = static_cast<std::size_t>(ranks);
  if (auto& known = abilities.gflops; !known.empty()) known.resize(count, *std::ranges::min_element(known));
  if (auto& known = abilities.limits; !known.empty()) known.resize(count, *std::ranges::min_element(known));
  const auto total = [](const auto& segments) {
    double sum = 0;
    for (const parallel::PassSeconds& one : segments) sum += one.sum();
    return sum;
  };
  if (auto& known = abilities.seconds; !known.empty()) {
    known.resize(count, *std::ranges::max_element(known, {}, total));
  }
  return abilities;
}

StagePlan::StagePlan(const StagePlan& other, const settings::Config& config)
    : StagePlan(config, other.model_, other.backend_, other.data_, other.strategy_, other.abilities_) {}

StagePlan::StagePlan(const StagePlan& other, int ranks)
    : StagePlan(other.config_, other.model_, other.backend_, other.data_, other.strategy_,
                on_ranks(other.abilities_, ranks)) {}

const nn::Piece& StagePlan::piece(int first, int last) const {
  const auto found = pieces_.find({first, last});
  if (found != pieces_.end()) return found->second;
  return pieces_.emplace(std::pair{first, last}, network().piece(first, last)).first->second;
}

std::vector<std::string> StagePlan::first_layers(const std::vector<int>& cuts) const {
  std::vector<std::string> layers;
  for (std::size_t p = 0; p + 1 < cuts.size(); ++p) {
    layers.push_back(cuts[p] == 0 ? network().first_layer() : points_[static_cast<std::size_t>(cuts[p]) - 1].next);
  }
  return layers;
}

settings::Config StagePlan::with(const StepSizes& sizes) const {
  settings::Config config = config_;
  config.replica.stages = sizes.stages;
  config.train.batch_size = sizes.batch_size;
  config.train.micro_batches = sizes.micro_batches;
  if (sizes.stages > 1) return config;
  config.replica.schedule = parallel::PipelineSchedule::naive;  // one rank trains one micro-batch at a time
  config.replica.chunks = 1;
  if (config.replica.recompute != parallel::Recompute::blocks) config.replica.recompute = parallel::Recompute::none;
  return config;
}

Index StagePlan::micro_batch(const StepSizes& sizes) const {
  const Index batch = largest_part(with(sizes), replicas(sizes.stages));
  return data_.train == 0 ? batch : std::min<Index>(batch, std::max<Index>(1, data_.train));
}

Index StagePlan::evaluation_batch(const StepSizes& sizes) const {
  return session::evaluation_batch(config_, data_, replicas(sizes.stages));
}

std::int64_t StagePlan::examples_bytes(bool reads_inputs) const {
  return session::examples_bytes(config_, data_, abilities_.ranks, reads_inputs);
}

// Memory --------------------------------------------------------------------------------------------------------------

parallel::FlightMemory StagePlan::flight(const StepSizes& sizes, int first, int last) const {
  return parallel::memory_of(piece(first, last), first == 0, ends(last), with(sizes).replica.schedule, backend_,
                             micro_batch(sizes), evaluation_batch(sizes));
}

/// What a piece needs whatever is in flight.
std::vector<MemoryItem> StagePlan::piece_items(const StepSizes& sizes, int first, int last) const {
  const nn::Piece& piece = this->piece(first, last);
  const std::int64_t n = size_of(piece.parameters()), replicas = this->replicas(sizes.stages);
  const std::int64_t averages = config_.train.weights.average > 0 ? 1 : 0;
  const std::int64_t peers = 2 * n * (replicas - 1) / replicas;  // pages of their gradients; see predict_memory
  const double share =
      model_.layout().size() == 0 ? 0 : static_cast<double>(n) / static_cast<double>(model_.layout().size());
  const auto extra =
      static_cast<double>(strategy_.extra_bytes(model_, static_cast<int>(replicas), static_cast<int>(states_)));
  const std::int64_t sharded = strategy_.sharding() == parallel::Sharding::always ? optimizer_states_ : 0;
  const std::int64_t state_floats = n * (states_ - sharded) + (n * sharded + replicas - 1) / replicas;
  const std::int64_t statistics = size_of(piece.statistics());
  const std::int64_t prepared =
      (first == 0 ? data_.features.size() + data_.context : 0) + (ends(last) ? data_.target_size + data_.context : 0);
  const std::int64_t copies_of_tied = (first == 0 ? 1 : 0) + (ends(last) ? 2 : 0);  // see parallel::TiedStages
  std::vector<MemoryItem> items = {
      {"parameters and gradient", kFloatBytes * (2 * n + peers)},
      {"optimizer state", kFloatBytes * state_floats},
      {"averaged weights", kFloatBytes * n * averages},
      {"buffers of the strategy", static_cast<std::int64_t>(extra * share) +
                                      kFloatBytes * n * reproducible_vectors(with(sizes), static_cast<int>(replicas))},
      {"statistics of batches", kFloatBytes * (statistics + sizes.micro_batches * piece.moments_size())},
      {"messages between stages", sizes.stages == 1 ? 0 : kFloatBytes * flight(sizes, first, last).messages},
      {"examples", examples_bytes(first == 0)},
      {"batches prepared",
       kFloatBytes * kPrefetchedBatches * prepared * (micro_batch(sizes) + evaluation_batch(sizes))},
      {"checkpoint being written", kFloatBytes * ((1 + states_ + averages) * n + statistics) / replicas}};
  const std::int64_t tied = sizes.stages == 1 ? 0 : network().tied_floats();
  if (tied > 0) items.push_back({"tied weights", kFloatBytes * copies_of_tied * tied});
  return items;
}

/// What every rank needs.
std::vector<MemoryItem> StagePlan::rank_items(const StepSizes& sizes) const {
  return {{"process, libraries, messages", abilities_.process_bytes + kRunningBytes},
          {"scratch of the kernels", estimated_scratch_bytes(model_, micro_batch(sizes))}};
}

std::vector<MemoryItem> StagePlan::memory(const StepSizes& sizes, const parallel::Placement& placement,
                                          int stage) const {
  parallel::ReplicaSettings settings = with(sizes).replica;
  settings.recompute = placement.recompute;
  const parallel::StageFlights flights =
      parallel::flights_of(settings, stage, micro_batches_of_replica(with(sizes), replicas(sizes.stages)));
  std::vector<MemoryItem> items = rank_items(sizes);
  parallel::StageMemory activations;
  for (std::size_t chunk = 0; chunk < flights.chunks.size(); ++chunk) {
    const std::size_t p = chunk * static_cast<std::size_t>(sizes.stages) + static_cast<std::size_t>(stage);
    add(items, piece_items(sizes, placement.cuts[p], placement.cuts[p + 1]));
    activations.add(flight(sizes, placement.cuts[p], placement.cuts[p + 1]), flights.chunks[chunk]);
  }
  add(items, {{"activations and their gradients", kFloatBytes * activations.activations}});
  return items;
}

// Problem -------------------------------------------------------------------------------------------------------------

/// In flops of an example.
parallel::PassSeconds StagePlan::segment_cost(int segment) const {
  const auto before = [this](int i) {
    if (i == 0) return nn::PieceCost{};
    return i == segments() ? piece(0, segments()).cost() : points_[static_cast<std::size_t>(i) - 1].before;
  };
  const nn::PieceCost first = before(segment), last = before(segment + 1);
  return {last.forward - first.forward, last.backward_inputs + last.again - first.backward_inputs - first.again,
          last.backward_weights - first.backward_weights};
}

/// The ranks that take this place in their replicas, see comm::GridShape.
std::vector<std::size_t> StagePlan::ranks_at(const StepSizes& sizes, int slot) const {
  std::vector<std::size_t> ranks;
  for (int rank = 0; rank < abilities_.ranks; ++rank) {
    if (rank / tensor() % sizes.stages == slot) ranks.push_back(static_cast<std::size_t>(rank));
  }
  return ranks;
}

/// Of a micro-batch on the slowest of the ranks that take this place in their replicas.
std::vector<parallel::PassSeconds> StagePlan::seconds(const StepSizes& sizes, int slot) const {
  const auto examples = static_cast<double>(micro_batch(sizes));
  std::vector<parallel::PassSeconds> slowest(static_cast<std::size_t>(segments()));
  for (const std::size_t number : ranks_at(sizes, slot)) {
    const double gflops = abilities_.gflops.empty() ? kAssumedGflops : abilities_.gflops[number];
    for (int i = 0; i < segments(); ++i) {
      parallel::PassSeconds& most = slowest[static_cast<std::size_t>(i)];
      const bool measured = !abilities_.seconds.empty();
      const parallel::PassSeconds one =
          measured ? abilities_.seconds[number][static_cast<std::size_t>(i)] : segment_cost(i);
      const double factor = measured ? examples : examples / (1e9 * gflops);
      most.forward = std::max(most.forward, factor * one.forward);
      most.backward_inputs = std::max(most.backward_inputs, factor * one.backward_inputs);
      most.backward_weights = std::max(most.backward_weights, factor * one.backward_weights);
    }
  }
  return slowest;
}

double StagePlan::limit(const StepSizes& sizes, int slot) const {
  double least = kNoStep;
  if (abilities_.limits.empty()) return least;
  for (const std::size_t rank : ranks_at(sizes, slot)) least = std::min(least, abilities_.limits[rank]);
  return least;
}

parallel::PlacementProblem StagePlan::problem(const StepSizes& sizes) const {
  const settings::Config config = with(sizes);
  const int replicas = this->replicas(sizes.stages);
  parallel::PlacementProblem problem{.settings = config.replica,
                                     .micro_batches = micro_batches_of_replica(config, replicas),
                                     .any_order = replicas == 1 && config.replica.placement.ranks.empty()};
  for (const nn::CutPoint& point : points_) {
    const Index floats = backend_.activation_size(point.shape.extent, micro_batch(sizes) * point.shape.rows);
    problem.boundaries.push_back({.bytes = static_cast<double>(kFloatBytes * round_up_to_line(floats))});
  }
  for (int slot = 0; slot < sizes.stages; ++slot) {
    problem.seconds.push_back(seconds(sizes, slot));
    problem.limits.push_back(limit(sizes, slot));
  }
  problem.bytes_of_each = static_cast<double>(sum(rank_items(sizes)));
  problem.memory = [this, sizes](int first, int last) {
    const parallel::FlightMemory one = flight(sizes, first, last);
    const Index grown = std::max<Index>(0, one.evaluation - one.workspace);
    return parallel::PieceMemory{
        .vectors = static_cast<double>(sum(piece_items(sizes, first, last)) + kFloatBytes * grown),
        .workspace = static_cast<double>(kFloatBytes * one.workspace),
        .input = static_cast<double>(kFloatBytes * one.input)};
  };
  return problem;
}

}  // namespace unisono::session
