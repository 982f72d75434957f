#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "evaluator.hpp"
#include "metrics_log.hpp"
#include "progress.hpp"
#include "trained_model.hpp"
#include "unisono/experiment/evaluate.hpp"

namespace unisono {
namespace {

void require_answers(const TrainedModel& model) {
  const DatasetInfo& info = (*model.data)->info();
  if (info.classes == 0 && info.target_size == 0) {
    throw DataError(fmt::format("{}: has neither labels nor targets to compare with; use 'unisono predict'",
                                model.config.data.path));
  }
  if (info.classes > model.header.inputs.classes && model.header.inputs.classes > 0) {
    throw DataError(fmt::format("{}: has {} classes, but the model was trained for {}", model.config.data.path,
                                info.classes, model.header.inputs.classes));
  }
}

}  // namespace

void evaluate(Communicator& world, const ApplyOptions& options, bool json, Log& log) {
  TrainedModel model(world, options, log);
  require_answers(model);
  const auto metrics = evaluate_split(world, **model.data, model.split, model.config.train.evaluation_batch_size,
                                      *model.parts->model, model.parts->state());
  const std::int64_t examples = examples_of((*model.data)->info(), model.split);
  if (json) {
    nlohmann::ordered_json object = {{"checkpoint", model.path},
                                     {"step", model.header.step},
                                     {"data", model.config.data.path},
                                     {"split", name_of(model.split)},
                                     {"examples", examples}};
    object.update(to_json(metrics));
    log.info(object.dump());
    return;
  }
  log.info(fmt::format("{} (step {}) on {} of {}, {} examples", model.path, model.header.step, name_of(model.split),
                       model.config.data.path, grouped(examples)));
  for (const Metric& metric : metrics) log.info(fmt::format("  {:15} {:.6g}", metric.name, metric.value));
}

}  // namespace unisono
