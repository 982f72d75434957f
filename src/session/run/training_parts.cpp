#include "unisono/session/training_parts.hpp"

#include <fmt/format.h>

#include "machine/reproducible.hpp"
#include "unisono/optim/catalog.hpp"
#include "unisono/session/method.hpp"
#include "unisono/session/settled.hpp"

namespace unisono::session {

TrainingParts::TrainingParts(ModelParts& parts, const settings::Config& config) {
  strategies::require_fit(*parts.strategy, *parts.model, parts.grid.data().size());
  require_divisible_steps(config, *parts.strategy, *parts.model);
  require_reproducible(config, parts);
  has_gradient = !parts.strategy->updates_in_place(*parts.model);
  if (has_gradient && !config.whole_batch())
    gradient = Buffer(parts.parameters.size(), parts.grid.data().shared_allocator());
  if (config.whole_batch()) {
    method = make_method(parts, config);
  } else {
    optimizer = optim::make_optimizer(optimizer_settings(config, *parts.strategy, *parts.model), *parts.held.state,
                                      *parts.backend);
  }
  for (const parallel::StateVector& vector : parts.strategy->state_vectors()) {
    const Buffer& like = vector.of == parallel::StateOf::parameters ? parts.parameters : parts.statistics;
    vectors.push_back({vector, Buffer(like.size(), parts.backend->memory())});
  }
  average = make_weight_average(parts, config, !has_gradient);
}

parallel::StepTerms step_terms(ModelParts& parts, TrainingParts& training, const settings::Config& config,
                               const StepsOf& steps) {
  return {.communicator = parts.grid.data(),
          .backend = *parts.backend,
          .model = steps.another_model != nullptr ? *steps.another_model : *parts.trained,
          .replica = *parts.replica,
          .optimizer = training.optimizer.get(),
          .source = steps.source,
          .state = parts.state(),
          .gradient = training.gradient.view(),
          .sums = training.sums,
          .seconds = training.seconds,
          .counters = training.counters,
          .first_step = steps.first_step,
          .bucket_bytes = config.communication.bucket_bytes,
          .leaves = config.communication.tree_leaves(),
          .statistics_reducer = &parts.statistics_reducer,
          .tensor_group = parts.tensor_group ? &*parts.tensor_group : nullptr,
          .vectors = training.vectors,
          .flops_per_example = parts.model->flops_per_example(),
          .state_shards = parts.held.state_shards ? &*parts.held.state_shards : nullptr,
          .one_theta = parts.node_memory != nullptr,
          .runtime = steps.runtime};
}

WorkerParts::WorkerParts(ModelParts& parts, TrainingParts& training, const settings::Config& config,
                         data::Dataset& data) {
  data::SourceOptions options = source_options(parts, config);
  const comm::Communicator& replicas = parts.grid.data();
  for (const int worker : parts.strategy->housed_workers(replicas.rank(), replicas.size())) {
    options.rank = worker;
    add(parts, training, config, std::make_unique<Owned>(config, data, options, parts.placement.threads));
  }
  if (!parts.strategy->has_workers(*parts.model)) return;
  options.lanes = parts.placement.threads;
  options.lanes_for = fmt::format("strategy.kind = \"{}\"", config.strategy.kind);
  for (options.lane = 0; options.lane < options.lanes; ++options.lane) {
    add(parts, training, config, std::make_unique<Owned>(config, data, options, 1));
  }
}

WorkerParts::Owned::Owned(const settings::Config& config, data::Dataset& data, const data::SourceOptions& options,
                          int threads)
    : backend(kernels::make_cpu_backend(threads)),
      model(models::make_model(config.model, inputs_of(data.info()),
                               model_context(*backend, reducer, false, config, &data))),
      source(data.train(options)) {}

void WorkerParts::add(ModelParts& parts, TrainingParts& training, const settings::Config& config,
                      std::unique_ptr<Owned> made) {
  Owned& owned = *owned_.emplace_back(std::move(made));
  const ParameterLayout& layout = parts.model->layout();
  const bool in_place = !training.has_gradient;
  const bool is_first = workers_.empty();  // it uses the rank's optimizer
  if (!is_first && !in_place) owned.optimizer = optim::make_optimizer(config.optimizer, layout, *owned.backend);
  Allocator& memory = owned.backend->memory();
  owned.parameters = Buffer(layout.size(), memory);
  owned.gradient = Buffer(in_place ? 0 : layout.size(), memory);
  owned.statistics = Buffer(parts.model->statistics_layout().size(), memory);
  workers_.push_back({.backend = *owned.backend,
                      .model = *owned.model,
                      .source = *owned.source,
                      .optimizer = owned.optimizer ? *owned.optimizer : *training.optimizer,
                      .state = {.parameters = owned.parameters.view(), .statistics = owned.statistics.view()},
                      .gradient = owned.gradient.view()});
}

}  // namespace unisono::session
