#include "predict/predictor.hpp"

#include "unisono/apply/answers.hpp"
#include "unisono/session/evaluation.hpp"

namespace unisono::apply {

Predictor::Predictor(TrainedModel& model, comm::Communicator& world, Index batch_size, bool answers)
    : model_(model),
      answers_(answers),
      source_((*model.data)->evaluate(model.split, world.rank(), world.size(), batch_size, model.parts->delivery())),
      next_(source_->first()) {
  model.parts->backend->fix_parameters();
}

BatchPredictions Predictor::next() {
  BatchPredictions rows;
  const auto batch = source_->next();
  if (!batch) return rows;
  rows.range = {next_, batch->size};
  rows.values.resize(static_cast<std::size_t>(batch->size * model_.parts->model->output_size()));
  model_.parts->model->predict(*batch, model_.parts->state(), rows.values);
  if (answers_ && answer_kind(model_).width > 0) rows.answers = models::answers_of(*batch);
  next_ += batch->size;
  return rows;
}

}  // namespace unisono::apply
