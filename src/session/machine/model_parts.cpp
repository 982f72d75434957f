#include "machine/model_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "machine/reproducible.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/comm/device.hpp"
#include "unisono/optim/catalog.hpp"
#include "unisono/parallel/pipeline.hpp"
#include "unisono/parallel/slice_holding.hpp"
#include "unisono/session/abilities.hpp"
#include "unisono/session/method.hpp"
#include "unisono/tensor/shard_map.hpp"

namespace unisono::session {

data::NodeShare share_of(comm::Communicator& world) {
  return {.node_rank = world.node_rank(),
          .node_size = world.node_size(),
          .rank = world.rank(),
          .size = world.size(),
          .allocate = {},
          .barrier = [&world] { world.node_barrier(); },
          .gather = [&world](const std::string& text) { return world.all_gather_text(text); }};
}

SharedDataset::SharedDataset(comm::Communicator& world, const data::DataSettings& settings, std::uint64_t seed,
                             const data::Preprocessing* trained)
    : share_(share_of(world)) {
  share_.allocate = [this, &world](std::size_t bytes) {
    windows_.push_back(world.allocate_on_node(bytes));
    return windows_.back().get();
  };
  dataset_ = data::open_dataset(settings, seed, share_, trained);
}

models::ModelInputs inputs_of(const data::DatasetInfo& info) {
  return {.kind = info.kind,
          .features = info.features,
          .rows = info.rows,
          .columns = info.columns,
          .mean_value = info.mean_value,
          .row_values = info.row_values,
          .classes = info.classes,
          .target_size = info.target_size,
          .context = info.context,
          .token_bytes = info.token_bytes,
          .mixed = info.mixed};
}

data::DatasetInfo set_like(const models::ModelInputs& inputs) {
  data::DatasetInfo info;
  info.kind = inputs.kind;
  info.rows = inputs.rows;
  info.context = inputs.context;
  info.features = inputs.features;
  info.classes = inputs.classes;
  info.target_size = inputs.target_size;
  return info;
}

namespace {

/// How many threads the config asks for per rank; 0: its fair share of the cores.
std::int64_t wanted_threads(const settings::Config& config) {
  if (traits_of(config.strategy).shares_model) return config.strategy.threads;
  if (settings::updates_in_place(config)) return 1;
  return config.train.threads;
}

/// Whether each rank has a thread for messages, or a server, that needs a core of its own: otherwise it would delay one
/// thread of a step, and so all.
bool serves_too(const settings::Config& config) {
  return traits_of(config.strategy).at_own_pace && config.strategy.servers == 0;
}

constexpr const char* kOneKindOfNodes =
    "the CPUs or builds of the ranks are too different to share a model; use nodes of one kind";

/// Null if the backend's memory is plain.
std::unique_ptr<comm::Communicator> world_of_device(comm::Communicator& world, kernels::Backend& backend,
                                                    const settings::Config& config, Log& log) {
  if (backend.device() == nullptr) return nullptr;
  return comm::make_device_communicator(world, *backend.device(), config.communication,
                                        [&log](const std::string& text) { log.info(text); });
}

/// A model that is updated in place has a rule of its own, which knows nothing of these.
optim::OptimizerSettings settings_in_place(const optim::OptimizerSettings& given, const std::string& model) {
  if (model == "linear" && !optim::traits_of(given).is_gradient_descent) {
    throw ConfigError(
        fmt::format("optimizer.kind = \"{}\": with this strategy, model.kind = \"linear\" is updated in place, which "
                    "supports only sgd; use sgd, or one of the strategies that train with any optimizer: {}",
                    given.kind, strategies::names_of_kinds([](const strategies::StrategyTraits& traits) {
                      return traits.needs_gradient && !traits.whole_batch;
                    })));
  }
  const auto refuse = [](bool wrong, std::string_view key) {
    if (!wrong) return;
    throw ConfigError(fmt::format(
        "optimizer.{}: not supported here, because the model is updated in place, example by example; remove it", key));
  };
  refuse(given.weight_decay != 0, "weight_decay");
  refuse(given.clip_norm != 0, "clip_norm");
  refuse(optim::traits_of(given).is_gradient_descent && optim::optimizer_state_vectors(given) > 0, "momentum");
  return {.learning_rate = given.learning_rate};
}

}  // namespace

Placement place_rank(comm::Communicator& group, const NodePlace& place, const settings::Config& config, Log& log) {
  return place_rank(group, place, wanted_threads(config), log, serves_too(config) ? 1 : 0,
                    traits_of(config.strategy).shares_model ? "strategy.threads" : "train.threads");
}

optim::OptimizerSettings optimizer_settings(const settings::Config& config, const strategies::Strategy& strategy,
                                            const models::Model& model) {
  return strategy.updates_in_place(model) ? settings_in_place(config.optimizer, config.model.kind) : config.optimizer;
}

models::ModelContext model_context(kernels::Backend& backend, Reducer& reducer, bool steps_together,
                                   const settings::Config& config, data::Dataset* data) {
  models::ModelContext context{.backend = backend,
                               .reducer = reducer,
                               .steps_together = steps_together,
                               .seed = static_cast<std::uint64_t>(config.seed),
                               .update_rule = config.optimizer.kind,
                               .learning_rate = config.optimizer.learning_rate,
                               .freeze = config.train.weights.freeze,
                               .recomputes_blocks = config.replica.recompute == parallel::Recompute::blocks};
  if (data != nullptr) {
    context.occurrences = [data] { return std::span<const std::int64_t>(data->occurrences()); };
    context.training_examples = data->info().train;
  }
  return context;
}

models::ModelContext model_context(kernels::Backend& backend, Reducer& reducer, bool steps_together,
                                   const settings::Config& config, const data::DatasetInfo& data) {
  models::ModelContext context = model_context(backend, reducer, steps_together, config);
  context.training_examples = data.train;
  return context;
}

data::MicroBatchSharing micro_batch_sharing(const settings::Config& config, int workers) {
  if (config.train.accumulate > 1) return data::MicroBatchSharing::sliced;
  if (!strategies::traits_of(config.strategy).steps_together) return data::MicroBatchSharing::own;
  return config.train.micro_batches < workers ? data::MicroBatchSharing::sliced : data::MicroBatchSharing::whole;
}

data::SourceOptions source_options(const ModelParts& parts, const settings::Config& config) {
  // A rank that does not train uses its source only for the length of an epoch.
  const auto part = parts.strategy->data_shard(parts.grid.data().rank(), parts.grid.data().size());
  return {.rank = part ? part->number : 0,
          .size = parts.workers(),
          .batch_size = config.train.batch_size,
          .micro_batches = std::max(config.train.accumulate, config.train.micro_batches),
          .sharing = micro_batch_sharing(config, parts.workers()),
          .leaves = config.communication.tree_leaves(),
          .drop_last = config.train.last_batch == settings::LastBatch::drop,
          .join_last = config.train.last_batch == settings::LastBatch::join,
          .least = parts.model->least_examples(),
          .seed = static_cast<std::uint64_t>(config.seed),
          .class_weights = parts.class_weights,
          .delivery = part ? parts.delivery() : data::Delivery{},
          .ahead = !config.simulation.is_on()};
}

RankDevice::RankDevice(const ModelPlace& where, const settings::Config& config)
    : placement(place_rank(where.group, where.place, config, where.log)),
      backend(make_backend(where.group, config, {where.place.number(), placement.threads}, where.log)),
      device_world(world_of_device(where.group, *backend, config, where.log)) {}

RankGroups::RankGroups(comm::Communicator& ranks, const comm::GridShape& shape, const Clock& clock)
    : grid(ranks, shape),
      squares(grid.replica()),
      all_squares(grid.all()),
      statistics_group(grid.data().split(0, grid.data().rank())),
      statistics_reducer(*statistics_group, clock),
      tensor_ranks(shape.tensor == 1 ? nullptr : grid.tensor().split(0, grid.tensor().rank())) {
  if (tensor_ranks) tensor_group.emplace(*tensor_ranks, clock);
}

TrainableModel::TrainableModel(const RankDevice& device, RankGroups& groups, const settings::Config& config,
                               const models::ModelInputs& inputs, data::Dataset* data)
    : strategy(strategies::make_strategy(config.strategy)),
      model(models::make_model(
          config.model, inputs,
          model_context(*device.backend, groups.statistics_reducer, strategy->steps_together(), config, data))),
      parts(make_model_parts(
          config, inputs, *model,
          model_context(*device.backend, groups.statistics_reducer, strategy->steps_together(), config, data),
          groups.tensor(), groups.grid.place().tensor)),
      trained(parts.empty() ? model.get() : parts[static_cast<std::size_t>(groups.grid.place().tensor)].get()),
      stages(
          make_stages(config, *model, *device.backend, groups.grid.data().size(), parts, groups.grid.place().tensor)) {
  comm::require_same(groups.grid.all(), "order of the parameters", model->layout().hash(), kOneKindOfNodes);
  if (data != nullptr) class_weights = class_weights_of(config, *model, *data);
}

HeldReplica::HeldReplica(const RankDevice& device, RankGroups& groups, TrainableModel& whole,
                         const settings::Config& config, data::Dataset* data, const Clock& clock) {
  comm::Communicator& replicas = groups.grid.data();
  const auto rows = data == nullptr ? nullptr : whole.strategy->divide(*whole.model, data->info(), replicas);
  held = make_holdings({.config = config,
                        .strategy = *whole.strategy,
                        .model = *whole.model,
                        .backend = *device.backend,
                        .rows = rows,
                        .stages = whole.stages.get(),
                        .rank = groups.grid.all().rank(),
                        .replica = replicas.rank(),
                        .replicas = replicas.size(),
                        .shares_memory = replicas.shares_memory(),
                        .usual_bucket = replicas.bucket_bytes(),
                        .squares_of_replica = groups.squares,
                        .squares_of_all = groups.all_squares});
  comm::require_same(groups.grid.all(), "division of the parameters", held.parameters->hash(), kOneKindOfNodes);
  if (rows) {
    replica = std::make_unique<parallel::RowReplica>(*whole.model, rows);
  } else if (whole.stages && whole.stages->stages() > 1) {
    replica = parallel::make_pipelined_replica({.model = *whole.trained,
                                                .backend = *device.backend,
                                                .stages = *whole.stages,
                                                .settings = config.replica,
                                                .pipeline = groups.grid.pipeline(),
                                                .replica = groups.grid.replica(),
                                                .replicas = replicas,
                                                .statistics = groups.statistics_reducer,
                                                .clock = clock,
                                                .held = held.parameters,
                                                .tensor_group = groups.tensor()});
  } else if (whole.stages) {
    replica = std::make_unique<parallel::DividedReplica>(*whole.trained, groups.grid.replica(), held.parameters);
  } else {
    replica = std::make_unique<parallel::SingleReplica>(*whole.model);
  }
  parameters = Buffer(held.parameters->size(), rows ? plain_allocator() : memory_of_parameters(replicas, held));
  statistics = Buffer(held.statistics->size(), device.backend->memory());
}

ModelParts::ModelParts(const ModelPlace& where, const settings::Config& config, const models::ModelInputs& inputs,
                       data::Dataset* data)
    : RankDevice(where, config),
      RankGroups(device_world ? *device_world : where.group, settings::grid_shape(config, where.group.size()),
                 where.clock),
      TrainableModel(*this, *this, config, inputs, data),
      HeldReplica(*this, *this, *this, config, data, where.clock) {}

void ModelParts::initialise(std::uint64_t seed) {
  model->initialise_held(seed, {*held.parameters, *held.statistics}, state());
}

std::vector<float> ModelParts::whole_parameters() {
  std::vector<float> whole(static_cast<std::size_t>(model->layout().size()));
  PlainValues own(parameters.allocator(), parameters.view());
  comm::gather(grid.all(), *held.parameters, own.view(), whole);
  return whole;
}

namespace {

/// Hands out memory that the ranks of a node share.
class NodeMemory final : public Allocator {
 public:
  explicit NodeMemory(std::shared_ptr<std::byte> memory) : memory_(std::move(memory)) {}
  void* allocate(std::size_t) override { return memory_.get(); }
  void deallocate(void*) noexcept override { memory_.reset(); }

 private:
  std::shared_ptr<std::byte> memory_;
};

}  // namespace

Allocator& memory_of_parameters(comm::Communicator& replicas, const Holdings& held) {
  // θ that will be shared needs no window before.
  return held.state_shards && replicas.shares_memory() ? page_allocator() : replicas.shared_allocator();
}

void ModelParts::share_parameters() {
  comm::Communicator& replicas = grid.data();
  if (!held.state_shards || node_memory || !replicas.shares_memory()) return;
  auto memory = replicas.allocate_on_node(static_cast<std::size_t>(parameters.size()) * sizeof(float));
  if (memory == nullptr) return;
  node_memory = std::make_unique<NodeMemory>(std::move(memory));
  Buffer one(parameters.size(), *node_memory);
  for (const FloatRange& own : held.state_shards->ranges_of(replicas.rank())) {
    std::ranges::copy(part(View(parameters.view()), own), part(one.view(), own).begin());
  }
  replicas.barrier();
  parameters = std::move(one);
}

// The parts of a model that is divided into the stages of a pipeline.

namespace {

/// \throws ConfigError where micro-batches cannot pass whole through each replica
void require_whole_micro_batches(const settings::Config& config, int replicas) {
  if (micro_batch_sharing(config, replicas) != data::MicroBatchSharing::sliced) return;
  throw ConfigError(fmt::format(
      "train.micro_batches: {} for {} replicas of {} stages: a micro-batch passes through the stages of one "
      "replica as a whole, so there must be at least as many micro-batches as replicas",
      config.train.micro_batches, replicas, config.stages()));
}

/// GPUs do not sum exactly, so that the norm of a vector that ranks share would not have the bits of a single rank's.
void require_no_norms(const settings::Config& config, kernels::Backend& backend) {
  const bool on_gpus = config.device == settings::DeviceChoice::cuda || backend.device() != nullptr;
  const bool clips = config.optimizer.clip_norm != 0;
  if (!on_gpus || !(clips || optim::traits_of(config.optimizer).has_block_rates)) return;
  throw ConfigError(
      fmt::format("{}: the norms of vectors that are divided among the ranks of a replica are computed only on CPUs so "
                  "far; {}, or set "
                  "device = \"cpu\", or replica.stages and replica.tensor to 1",
                  clips ? "optimizer.clip_norm" : fmt::format("optimizer.kind = \"{}\"", config.optimizer.kind),
                  clips ? "set it to 0" : "choose another one"));
}

}  // namespace

std::unique_ptr<parallel::Stages> make_stages(const settings::Config& config, const models::Model& model,
                                              kernels::Backend& backend, int replicas,
                                              std::span<const std::unique_ptr<models::Model>> parts, int own) {
  if (config.stages() == 1 && parts.empty()) return nullptr;
  if (model.staged() == nullptr) {
    throw ConfigError(
        fmt::format("replica.stages: model.kind = \"{}\" has no layers that could be divided into stages; set it to 1",
                    config.model.kind));
  }
  require_no_norms(config, backend);
  if (config.stages() > 1) require_whole_micro_batches(config, replicas);
  if (parts.empty()) return std::make_unique<parallel::Stages>(*model.staged(), config.replica, replicas);
  parallel::DividedModel divided{.whole = model, .parts = {}, .own = own};
  for (const auto& part : parts) divided.parts.push_back(part->staged());
  return std::make_unique<parallel::Stages>(divided, config.replica, replicas);
}

namespace {

/// Why no rank has less than the whole model.
[[noreturn]] void refuse_undivided(const settings::Config& config, const models::ModelInputs& inputs,
                                   const models::Model& whole, const models::ModelContext& context) {
  models::ModelContext half = context;
  half.part = {.leaves = 2};
  const bool can_be_halved =
      models::make_model(config.model, inputs, half)->layout().parameters() < whole.layout().parameters();
  if (can_be_halved) {
    throw ConfigError(
        fmt::format("replica.tensor: no layer of the model has as many units as there are parts ({}); lower "
                    "replica.tensor or replica.tensor_leaves, or use wider layers",
                    config.replica.part(0).leaves));
  }
  throw ConfigError(
      "replica.tensor: the model has no layers that can be divided: attention, two dense layers one behind the other, "
      "or an embedding; set it to 1");
}

}  // namespace

std::vector<std::unique_ptr<models::Model>> make_model_parts(const settings::Config& config,
                                                             const models::ModelInputs& inputs,
                                                             const models::Model& whole,
                                                             const models::ModelContext& context, TensorGroup* group,
                                                             int own) {
  std::vector<std::unique_ptr<models::Model>> parts;
  if (!config.divides_layers()) return parts;
  if (whole.staged() == nullptr) {
    throw ConfigError(fmt::format(
        "replica.tensor: model.kind = \"{}\" has no layers that could be divided; set it to 1, and tensor_leaves to 0",
        config.model.kind));
  }
  for (int number = 0; number < config.replica.tensor; ++number) {
    models::ModelContext own_context = context;
    own_context.part = config.replica.part(number);
    own_context.tensor = number == own ? group : nullptr;
    parts.push_back(models::make_model(config.model, inputs, own_context));
  }
  if (parts.front()->layout().parameters() == whole.layout().parameters() && config.replica.tensor > 1) {
    refuse_undivided(config, inputs, whole, context);
  }
  return parts;
}

namespace {

std::vector<float> listed_weights(const settings::TrainSettings& train) {
  return {train.class_weight_list.begin(), train.class_weight_list.end()};
}

void check_list(const std::vector<float>& weights, Index classes) {
  if (std::ssize(weights) != classes) {
    throw ConfigError(fmt::format(
        "train.class_weights: {} {} given, but the data have {}; set one per class, or use \"balanced\"",
        count_of(std::ssize(weights), "weight"), weights.size() == 1 ? "is" : "are", count_of(classes, "class")));
  }
  if (!std::all_of(weights.begin(), weights.end(), [](float weight) { return std::isfinite(weight); })) {
    throw ConfigError(
        "train.class_weights: a weight is too large for a float32; use smaller weights, because only their ratio "
        "matters");
  }
  if (std::all_of(weights.begin(), weights.end(), [](float weight) { return weight == 0; })) {
    throw ConfigError("train.class_weights: no class has a weight above 0, so nothing would be learned");
  }
}

}  // namespace

std::vector<float> balanced_weights(std::span<const std::int64_t> counts) {
  double examples = 0, classes = 0;
  for (const std::int64_t count : counts) {
    examples += static_cast<double>(count);
    classes += count > 0 ? 1 : 0;
  }
  std::vector<float> weights;
  for (const std::int64_t count : counts) {
    weights.push_back(count == 0 ? 1.0F : static_cast<float>(examples / (classes * static_cast<double>(count))));
  }
  return weights;
}

void require_class_weights(const settings::Config& config, const models::Model& model, const data::DatasetInfo& data) {
  const settings::TrainSettings& train = config.train;
  if (data.weighted && !model.takes_weights()) {
    throw ConfigError(
        fmt::format("{}: /train/weights: model.kind = \"{}\" does not support example weights; use a set without them",
                    config.data.path, config.model.kind));
  }
  const bool balanced = train.class_weight_list.empty();
  if (balanced && train.class_weights == settings::ClassWeights::none) return;
  if (!model.takes_weights()) {
    throw ConfigError(
        fmt::format("train.class_weights: model.kind = \"{}\" does not support example weights; set it to \"none\"",
                    config.model.kind));
  }
  if (data.classes == 0) {
    throw ConfigError(
        fmt::format("train.class_weights: {} has no labels, which class weights need; set it to \"none\"",
                    config.data.targets == data::Targets::features ? "an autoencoder" : config.data.path));
  }
  if (!balanced) check_list(listed_weights(train), data.classes);
}

std::vector<float> class_weights_of(const settings::Config& config, const models::Model& model, data::Dataset& data) {
  require_class_weights(config, model, data.info());
  const settings::TrainSettings& train = config.train;
  if (!train.class_weight_list.empty()) return listed_weights(train);
  return train.class_weights == settings::ClassWeights::none ? std::vector<float>{}
                                                             : balanced_weights(data.class_counts());
}

namespace {

std::shared_ptr<Holding> parameters_of(const HoldingTerms& terms) {
  if (terms.rows) return terms.rows;
  if (terms.stages == nullptr) return std::make_shared<WholeHolding>(terms.model.layout());
  return std::make_shared<MapHolding>(terms.stages->parameters(), terms.rank, terms.squares_of_replica);
}

std::shared_ptr<const Holding> statistics_of(const HoldingTerms& terms) {
  if (terms.stages == nullptr) return std::make_shared<WholeHolding>(terms.model.statistics_layout());
  return std::make_shared<MapHolding>(terms.stages->statistics(), terms.rank, terms.squares_of_replica);
}

/// Whether each replica keeps a part of the optimizer's state, and makes that part of a step.
bool shards_state(const HoldingTerms& terms) {
  if (terms.replicas == 1) return false;
  const parallel::Sharding sharding = terms.strategy.sharding();
  if (sharding != parallel::Sharding::where_faster) return sharding == parallel::Sharding::always;
  const bool can = terms.shares_memory && terms.backend.device() == nullptr && terms.config.ranks_of_replica() == 1 &&
                   terms.config.communication.tree_leaves() == 0;
  return can &&
         parallel::are_faster_on_one_node(terms.model.layout().size(),
                                          optim::optimizer_state_vectors(terms.config.optimizer), terms.replicas);
}

/// \param floats of θ on this rank
parallel::StateShards state_shards_of(const HoldingTerms& terms, Index floats) {
  // Of one θ, each rank has one slice.
  if (terms.shares_memory) return {floats, floats * Index{sizeof(float)}, terms.replicas};
  const Index bucket = terms.config.communication.bucket_bytes;
  return {floats, bucket > 0 ? bucket : terms.usual_bucket, terms.replicas};
}

}  // namespace

Holdings make_holdings(const HoldingTerms& terms) {
  using Place = parallel::SliceHolding::Place;
  Holdings held;
  held.parameters = parameters_of(terms);
  held.statistics = statistics_of(terms);
  const auto slices = [&](const std::vector<FloatRange>& own, Place place) {
    return std::make_shared<parallel::SliceHolding>(held.parameters, own, place, &terms.squares_of_all);
  };
  held.gradient = held.state = held.parameters;
  if (shards_state(terms)) {
    held.state_shards = state_shards_of(terms, held.parameters->size());
    const std::vector<FloatRange> own = held.state_shards->ranges_of(terms.replica);
    held.gradient = slices(own, Place::in_place);
    held.state = slices(own, Place::packed);
  } else if (terms.config.whole_batch() && terms.replicas > 1) {
    const VectorShards shards(held.parameters->size(), terms.replicas);
    held.state = slices({shards.shard(terms.replica)}, Place::packed);
  }
  return held;
}

}  // namespace unisono::session
