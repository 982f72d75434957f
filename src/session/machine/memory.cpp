#include "unisono/session/memory.hpp"

#include <algorithm>
#include <new>

#include "unisono/base/errors.hpp"
#include "unisono/comm/gather.hpp"
#include "unisono/optim/optimizer.hpp"
#include "unisono/parallel/exchange.hpp"
#include "unisono/session/method.hpp"
#include "unisono/session/model_parts.hpp"
#include "unisono/session/synthetic_source.hpp"

namespace unisono::session {
namespace {

constexpr std::int64_t kFloat = sizeof(float);
constexpr Index kTriedExamples = 128;

/// A run, and what the rank holds of its vectors.
struct HeldContext : MemoryContext {
  HeldContext(const MemoryContext& context, SquaresReducer& squares)
      : MemoryContext(context),
        held(make_holdings({.config = config,
                            .strategy = strategy,
                            .model = model,
                            .backend = backend,
                            .rows = rows,
                            .rank = rank,
                            .replica = rank,
                            .replicas = ranks,
                            .shares_memory = one_node,
                            .squares_of_replica = squares,
                            .squares_of_all = squares})) {}
  Holdings held;
};

/// θ, the gradient if there is one, and those pages of the peers' gradients that a rank reads in shared memory
/// (reduce-scatter, then all-gather), which count as its own. Servers get gradients by messages instead.
std::int64_t vectors_bytes(const HeldContext& context, std::int64_t n, bool in_place) {
  const int ranks = context.ranks;
  const bool reads_peers = context.held.parameters->held_by_all() && context.strategy.servers(ranks) == 0;
  if (context.config.whole_batch()) return kFloat * n;
  // Of one θ a rank reads all pages, and of the peers' gradients its slice.
  if (context.held.state_shards && context.one_node) return kFloat * (2 * n + n * (ranks - 1) / ranks);
  return kFloat * (in_place ? n : 2 * n + (reads_peers ? 2 * n * (ranks - 1) / ranks : 0));
}

std::int64_t numbers_of(const ParameterLayout& layout) {
  std::int64_t numbers = 0;
  for (const Block& block : layout.blocks()) numbers += block.size();
  return numbers;
}

std::int64_t numbers_of(const Holding& holding) {
  std::int64_t numbers = 0;
  for (const Shard& shard : holding.shards()) numbers += size_of(shard.box);
  return numbers;
}

/// The snapshot of what this rank writes to a checkpoint: its share of what all ranks hold, and all that only it holds.
std::int64_t checkpoint_bytes(const HeldContext& context, std::int64_t states) {
  const std::int64_t numbers = numbers_of(*context.held.parameters);
  if (!context.held.parameters->held_by_all()) {
    return kFloat * ((1 + states) * numbers + numbers_of(context.model.statistics_layout()) / context.ranks);
  }
  const std::int64_t own = context.strategy.optimizer_state_is_local() ? states * numbers : 0;
  const std::int64_t common = (1 + states) * numbers - own + numbers_of(context.model.statistics_layout());
  return kFloat * (own + common / context.ranks);
}

/// Two copies in the memory of the nodes: of what this rank keeps of a state that all hold or, where ranks hold what
/// only they have, of its own part and another node's; and the snapshot from which they are made.
std::int64_t copies_bytes(const HeldContext& context, std::int64_t states) {
  if (context.config.checkpoint.memory_every_steps == 0) return 0;
  const bool divided = !context.held.parameters->held_by_all() || context.strategy.optimizer_state_is_local();
  if (divided) return (context.one_node ? 3 : 5) * checkpoint_bytes(context, states);
  const std::int64_t all = (1 + states) * numbers_of(*context.held.parameters);
  const int ranks_of_node = context.one_node ? context.ranks : 1;  // at least
  return 3 * kFloat * (all + numbers_of(context.model.statistics_layout())) / ranks_of_node;
}

/// The examples of a rank's largest micro-batch; less if the set has fewer examples than a step takes.
Index training_batch(const MemoryContext& context) {
  if (context.config.whole_batch()) return examples_of_pass(context.strategy, context.model, context.data);
  const int workers = context.strategy.workers(context.ranks);
  const Index batch = largest_part(context.config, workers);
  if (context.data.train == 0) return batch;
  return std::min<Index>(batch, (context.data.train + workers - 1) / workers);
}

/// The examples of a rank's largest micro-batch before they are mixed, and those that are mixed into them.
Index unmixed_examples(const MemoryContext& context, Index batch) {
  return context.data.mixed ? std::min<Index>(2 * batch, context.config.train.batch_size) : 0;
}

/// The kernels' own memory after a forward and backward pass.
std::int64_t scratch_bytes_after(const MemoryContext& context, Index batch) {
  try_pass(context.model, context.backend, context.data, batch);
  return context.backend.scratch_size() * kFloat;
}

/// The same for a batch of any size, extrapolated linearly from two small ones.
std::int64_t tried_scratch_bytes(const MemoryContext& context, Index batch) {
  if (batch <= kTriedExamples) return scratch_bytes_after(context, batch);
  const std::int64_t half = scratch_bytes_after(context, kTriedExamples / 2);
  const std::int64_t whole = scratch_bytes_after(context, kTriedExamples);
  return whole + (whole - half) * (batch - kTriedExamples) / (kTriedExamples / 2);
}

/// Measured by a pass if that takes little memory, else estimated: a prediction must not need the memory that it
/// predicts.
std::int64_t scratch_bytes(const HeldContext& context, Index batch) {
  const std::int64_t estimated = estimated_scratch_bytes(context.model, batch);
  const std::int64_t bytes = kFloat * (2 * context.held.parameters->size() + context.model.statistics_layout().size()) +
                             context.model.workspace_bytes(std::min(batch, kTriedExamples));
  if (bytes > context.most_tried_bytes) return estimated;
  try {
    return tried_scratch_bytes(context, batch);
  } catch (const DeviceError&) {
    return estimated;
  } catch (const std::bad_alloc&) {
    return estimated;
  }
}

/// Of sparse rows, where threads copy their parts of the features: columns, values, and each part's offsets.
std::int64_t copied_values_bytes(const MemoryContext& context) {
  const strategies::StrategySettings& strategy = context.config.strategy;
  const bool sparse = context.data.kind == data::SetKind::sparse;
  if (!strategies::traits_of(strategy).divides_features || !sparse || strategy.threads * context.ranks < 2) return 0;
  const double values = context.data.row_values * static_cast<double>(context.data.train) / context.ranks;
  const std::int64_t offsets = strategy.threads * (context.data.train + 1);
  return static_cast<std::int64_t>(values) * (kFloat + std::int64_t{sizeof(std::uint32_t)}) +
         offsets * std::int64_t{sizeof(std::uint64_t)};
}

/// What is counted of the training examples, and factors of penalties that follow from it: of the features of a linear
/// model with penalties, and of users and items.
std::int64_t counted_bytes(const MemoryContext& context) {
  constexpr std::int64_t kCount = sizeof(std::int64_t);
  const data::DatasetInfo& data = context.data;
  const settings::Config& config = context.config;
  if (data.kind == data::SetKind::ratings) return kCount * (data.rows + data.columns);
  const bool is_penalised = config.model.linear.l1 > 0 || config.model.linear.l2 > 0;
  if (config.model.kind != "linear" || !is_penalised) return 0;
  return data.features.size() * (kFloat + (data.kind == data::SetKind::sparse ? kCount : 0));
}

/// Of linear models.
std::int64_t pass_bytes(const MemoryContext& context, Index batch) {
  const models::Convex* const convex = context.model.convex();
  if (convex == nullptr) return 0;
  return convex->pass_bytes(batch) + convex->kept_bytes(context.data.train, context.data.row_values);
}

bool is_in_place(const MemoryContext& context) {
  return context.strategy.updates_in_place(context.model) || context.model.alternating() != nullptr;
}

/// The workers of a rank, each with a model, a backend and a source of its own: the rank's own model then only
/// evaluates. 0: that one trains, too.
std::int64_t workers_of_rank(const MemoryContext& context) {
  if (context.strategy.has_workers(context.model)) return std::max<std::int64_t>(1, context.config.strategy.threads);
  return std::ssize(context.strategy.housed_workers(context.rank, context.ranks));
}

/// Vectors of θ's size that the optimizer keeps; none where another method takes its place.
std::int64_t optimizer_states(const MemoryContext& context) {
  const bool keeps = !is_in_place(context) && !context.config.whole_batch();
  return keeps ? optim::optimizer_state_vectors(context.config.optimizer) : 0;
}

/// The same of the strategy.
std::int64_t strategy_states(const MemoryContext& context) {
  const bool keeps = !is_in_place(context) && !context.config.whole_batch();
  return keeps ? parallel::vectors_of_parameters(context.strategy.state_vectors()) : 0;
}

}  // namespace

void try_pass(models::Model& model, kernels::Backend& backend, const data::DatasetInfo& data, Index batch) {
  Allocator& memory = backend.memory();
  Buffer parameters(model.layout().size(), memory), statistics(model.statistics_layout().size(), memory),
      gradient(parameters.size(), memory);
  const models::ModelState state{.parameters = parameters.view(), .statistics = statistics.view()};
  model.initialise(0, state);
  SyntheticSource source(inputs_of(data), {.rank = 0, .size = 1, .batch_size = batch, .seed = 0});
  kernels::LossSums sums;
  model.loss_and_gradient(source.next(), 1, state, {gradient.view()}, sums);
}

std::int64_t estimated_scratch_bytes(const models::Model& model, Index batch) {
  constexpr Index kGradients = 9;
  std::int64_t most = 0;
  for (const models::LayerSummary& layer : model.summary(batch)) {
    const Index gradients = layer.kind == "convolution" ? kGradients * layer.parameters : 0;
    most = std::max<std::int64_t>(most, layer.activation_bytes + kFloat * gradients);
  }
  return most;
}

Index evaluation_batch(const settings::Config& config, const data::DatasetInfo& data, int replicas) {
  const std::int64_t examples = std::max(data.validation, data.test);
  return std::min<Index>(config.train.evaluation_batch_size, (examples + replicas - 1) / replicas);
}

std::int64_t examples_bytes(const settings::Config& config, const data::DatasetInfo& data, int ranks,
                            bool reads_inputs) {
  const data::Partition partition = config.data.partition;
  const bool shared =
      data.resident && (partition == data::Partition::global || partition == data::Partition::automatic);
  if (shared && !reads_inputs) return 0;
  return data.bytes_per_node / (shared ? 1 : ranks);
}

Index largest_part(const settings::Config& config, int ranks) {
  const auto divided = [](Index examples, Index parts) { return (examples + parts - 1) / parts; };
  const Index micro = divided(config.train.batch_size, std::max(config.train.accumulate, config.train.micro_batches));
  const bool whole = micro_batch_sharing(config, ranks) == data::MicroBatchSharing::whole;
  return whole ? micro : divided(micro, ranks);
}

int micro_batches_of_replica(const settings::Config& config, int replicas) {
  const std::int64_t all = config.train.micro_batches;
  const bool own = micro_batch_sharing(config, replicas) == data::MicroBatchSharing::own;
  return static_cast<int>(own ? all : (all + replicas - 1) / replicas);
}

std::int64_t reproducible_vectors(const settings::Config& config, int replicas) {
  const std::int64_t leaves = std::min<std::int64_t>(config.communication.tree_leaves(), config.train.micro_batches);
  int most = 0;
  for (int replica = 0; replica < replicas; ++replica) {
    most = std::max(most, parallel::vectors_of_reproducible_sum(static_cast<int>(leaves), replica, replicas));
  }
  return most;
}

std::vector<MemoryItem> predict_memory(const MemoryContext& of_run) {
  const auto alone = comm::make_self_communicator();
  comm::CommunicatorSquares squares(*alone);  // nothing is summed
  const HeldContext context(of_run, squares);
  models::Model& model = context.model;
  const std::int64_t n = context.held.parameters->size();
  const bool in_place = is_in_place(context);
  // Of a method for the whole set, a rank has shards, and those of a checkpoint are as large as these.
  const bool whole_batch = context.config.whole_batch();
  const std::int64_t shards = whole_batch ? optim::optimizer_state_vectors(context.config.optimizer) : 0;
  const std::int64_t of_optimizer = optimizer_states(context), of_strategy = strategy_states(context);
  const std::int64_t states = of_optimizer + of_strategy;
  const Index batch = training_batch(context);
  const Index evaluated = evaluation_batch(context.config, context.data, context.ranks);
  const bool table = context.data.kind == data::SetKind::table;
  const std::int64_t tokens = 2 * context.data.context;  // inputs and labels
  const std::int64_t example = table ? context.data.features.size() + context.data.target_size : tokens;
  const std::int64_t workers = workers_of_rank(context), sources = std::max<std::int64_t>(1, workers);
  const std::int64_t trained = model.workspace_bytes(batch), inferred = model.inference_workspace_bytes(evaluated);
  const std::int64_t averages = context.config.train.weights.average > 0 ? 1 : 0;
  std::vector<MemoryItem> items = {
      {"process, libraries, messages", context.process_bytes + kRunningBytes, /*once=*/true},
      {in_place ? "parameters" : "parameters and gradient", vectors_bytes(context, n, in_place)},
      {"optimizer state", kFloat * (context.held.state->size() * of_optimizer + n * of_strategy) +
                              method_bytes(context.config, context.model, context.rank, context.ranks)},
      {"averaged weights", kFloat * n * averages},
      {"buffers of the strategy", context.strategy.extra_bytes(model, context.ranks, static_cast<int>(states)) +
                                      kFloat * n * reproducible_vectors(context.config, context.ranks) +
                                      copied_values_bytes(context)},
      {"activations and their gradients", workers == 0 ? std::max(trained, inferred) : workers * trained + inferred},
      {"scratch of the kernels", in_place ? 0 : sources * scratch_bytes(context, batch) + pass_bytes(context, batch)},
      {"examples", examples_bytes(context.config, context.data, context.ranks), /*once=*/true},
      {"batches prepared", kFloat * (kPrefetchedBatches * example * (sources * batch + evaluated) +
                                     sources * unmixed_examples(context, batch) * context.data.features.size())},
      {"checkpoint being written",
       checkpoint_bytes(context, states + shards) + averages * kFloat * numbers_of(model.layout()) / context.ranks}};
  if (const std::int64_t copies = copies_bytes(context, states + shards); copies > 0)
    items.push_back({"copies in memory", copies});
  if (workers > 0) {
    const std::int64_t vectors = (in_place ? 1 : 2) * workers + (workers - 1) * of_optimizer;
    items.push_back({"parameters and gradients of the rank's workers", kFloat * n * vectors});
  }
  if (const std::int64_t counted = counted_bytes(context); counted > 0)
    items.push_back({"counts and penalties of rows", counted});
  if (context.data.encoded) {
    const int threads = data::decoding_threads(context.config.data, context.one_node ? context.ranks : 1);
    items.push_back({"decoding of pictures", threads * context.data.decoding_bytes});
  }
  return items;
}

std::int64_t predict_memory_of_all(const MemoryContext& context) {
  constexpr std::int64_t kRankBytes = 100 << 10;  // of its stack and its objects
  const int states = static_cast<int>(optimizer_states(context) + strategy_states(context));
  const std::int64_t all = context.strategy.extra_bytes_of_all(context.model, context.ranks, states);
  std::int64_t once = all, of_rank = kRankBytes - context.strategy.extra_bytes(context.model, context.ranks, states);
  for (const MemoryItem& item : predict_memory(context)) (item.once ? once : of_rank) += item.bytes;
  return once + context.ranks * of_rank;
}

std::int64_t sum(const std::vector<MemoryItem>& parts) {
  std::int64_t bytes = 0;
  for (const MemoryItem& part : parts) bytes += part.bytes;
  return bytes;
}

}  // namespace unisono::session
