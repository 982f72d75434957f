#include "run/validation_outputs.hpp"

#include "unisono/base/errors.hpp"
#include "unisono/session/weight_average.hpp"

namespace unisono::session {

std::vector<float> validation_outputs(ModelParts& parts, TrainingParts& training, data::Dataset& data,
                                      const settings::Config& config) {
  if (!parts.held.parameters->held_by_all()) {
    throw ConfigError(
        "predictions of validation examples need a model that each rank holds as a whole: remove "
        "replica.stages, or choose another strategy than stratified");
  }
  if (data.info().validation == 0) return {};
  const WeightAverage::InPlace applied(parts, training.average.get());
  comm::Communicator& ranks = parts.grid.all();
  const auto source = data.evaluate(data::Split::validation, ranks.rank(), ranks.size(),
                                    config.train.evaluation_batch_size, parts.delivery());
  const auto width = static_cast<std::size_t>(parts.model->output_size());
  std::vector<float> outputs;
  while (const auto batch = source->next()) {
    const std::size_t before = outputs.size(), count = static_cast<std::size_t>(batch->size) * width;
    outputs.resize(before + count);
    parts.model->predict(*batch, parts.state(), std::span(outputs).subspan(before));
  }
  return ranks.all_gather_joined(outputs);
}

}  // namespace unisono::session
