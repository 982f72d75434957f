#include "unisono/session/model_parts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "machine/class_weights.hpp"
#include "machine/reproducible.hpp"
#include "machine/sharing.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/text.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/comm/device.hpp"
#include "unisono/optim/catalog.hpp"
#include "unisono/parallel/pipeline.hpp"
#include "unisono/session/device.hpp"
#include "unisono/session/method.hpp"

namespace unisono::session {

SharedDataset::SharedDataset(comm::Communicator& world, const data::DataSettings& settings, std::uint64_t seed,
                             const data::Preprocessing* trained) {
  share_.node_rank = world.node_rank();
  share_.node_size = world.node_size();
  share_.rank = world.rank();
  share_.size = world.size();
  share_.allocate = [this, &world](std::size_t bytes) {
    windows_.push_back(world.allocate_on_node(bytes));
    return windows_.back().get();
  };
  share_.barrier = [&world] { world.node_barrier(); };
  share_.gather = [&world](const std::string& text) { return world.all_gather_text(text); };
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
          .target_size = info.target_size};
}

data::DatasetInfo set_like(const models::ModelInputs& inputs) {
  data::DatasetInfo info;
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
                               .freeze = config.train.weights.freeze};
  if (data != nullptr) {
    context.occurrences = [data] { return std::span<const std::int64_t>(data->occurrences()); };
    context.training_examples = data->info().train;
  }
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
          .seed = static_cast<std::uint64_t>(config.seed),
          .class_weights = parts.class_weights,
          .delivery = part ? parts.delivery() : data::Delivery{}};
}

RankDevice::RankDevice(const ModelPlace& where, const settings::Config& config)
    : placement(place_rank(where.group, where.place, config, where.log)),
      backend(make_backend(where.group, config, {where.place.number(), placement.threads}, where.log)),
      device_world(world_of_device(where.group, *backend, config, where.log)) {}

RankGroups::RankGroups(comm::Communicator& ranks, const comm::GridShape& shape, const Clock& clock)
    : grid(ranks, shape),
      squares(grid.pipeline()),
      all_squares(grid.all()),
      statistics_group(grid.data().split(0, grid.data().rank())),
      statistics_reducer(*statistics_group, clock) {}

TrainableModel::TrainableModel(const RankDevice& device, RankGroups& groups, const settings::Config& config,
                               const models::ModelInputs& inputs, data::Dataset* data)
    : strategy(strategies::make_strategy(config.strategy)),
      model(models::make_model(
          config.model, inputs,
          model_context(*device.backend, groups.statistics_reducer, strategy->steps_together(), config, data))),
      stages(make_stages(config, *model, *device.backend, groups.grid.data().size())) {
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
  } else if (whole.stages) {
    replica = parallel::make_pipelined_replica({.model = *whole.model,
                                                .backend = *device.backend,
                                                .stages = *whole.stages,
                                                .settings = config.replica,
                                                .pipeline = groups.grid.pipeline(),
                                                .replicas = replicas,
                                                .statistics = groups.statistics_reducer,
                                                .clock = clock});
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

}  // namespace unisono::session
