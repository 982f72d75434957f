#include "parts.hpp"

#include "agreement.hpp"

namespace unisono {

SharedDataset::SharedDataset(Communicator& world, const DataSettings& settings, std::uint64_t seed,
                             const Normalization* normalization) {
  share_.node_rank = world.node_rank();
  share_.node_size = world.node_size();
  share_.allocate = [this, &world](std::size_t bytes) {
    windows_.push_back(world.allocate_on_node(bytes));
    return windows_.back().get();
  };
  share_.barrier = [&world] { world.node_barrier(); };
  share_.gather = [&world](const std::string& text) { return world.all_gather_text(text); };
  dataset_ = open_dataset(settings, seed, share_, normalization);
}

ModelInputs inputs_of(const DatasetInfo& info) {
  return {.features = info.features, .classes = info.classes, .target_size = info.target_size};
}

ModelParts::ModelParts(Communicator& communicator, const Config& config, const ModelInputs& inputs, Log& log)
    : world(communicator),
      placement(place_rank(world, config.train.threads, log)),
      strategy(make_strategy(config.strategy)),
      backend(make_cpu_backend(placement.threads)),
      statistics_group(world.split(0, world.rank())),
      statistics_reducer(*statistics_group),
      model(make_model(config.model, inputs,
                       {.backend = *backend,
                        .reducer = statistics_reducer,
                        .steps_together = strategy->steps_together(),
                        .seed = static_cast<std::uint64_t>(config.seed)})) {
  require_same(world, "order of the parameters", model->layout().hash(),
               "the ranks' CPUs or builds are too different to share a model; use nodes of one kind");
  parameters = Buffer(model->layout().size(), world.shared_allocator());
  statistics = Buffer(model->statistics_layout().size());
}

TrainingParts::TrainingParts(ModelParts& parts, const Config& config)
    : gradient(parts.model->layout().size(), parts.world.shared_allocator()),
      optimizer(make_optimizer(config.optimizer, parts.model->layout(), *parts.backend)) {}

}  // namespace unisono
