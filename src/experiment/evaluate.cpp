#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "evaluator.hpp"
#include "metrics_log.hpp"
#include "progress.hpp"
#include "run_dictionary.hpp"
#include "trained_model.hpp"
#include "unisono/base/text.hpp"
#include "unisono/experiment/evaluate.hpp"

namespace unisono {
namespace {

/// The model's kind of answers, for the split that is evaluated.
void require_answers(const TrainedModel& model) {
  const DatasetInfo& info = (*model.data)->info();
  if (has_names(info.kind)) return;  // each example is its own answer
  const ModelInputs& trained = model.checkpoint.header.inputs;
  const Answers& there = info.answers[static_cast<std::size_t>(model.split)];
  const std::string where = fmt::format("{}: /{}", model.config.data.path, name_of(model.split));
  if (!there.labels && there.target_size == 0) {
    throw DataError(where + " has neither labels nor targets to compare with; use 'unisono predict'");
  }
  if (trained.classes > 0 && !there.labels) {
    throw DataError(where + " has no labels, but the model was trained on some; use 'unisono predict'");
  }
  if (trained.target_size > 0 && there.target_size != trained.target_size) {
    throw DataError(fmt::format("{} has {} target values an example, but the model was trained on {}", where,
                                there.target_size, trained.target_size));
  }
  if (trained.classes > 0 && info.classes > trained.classes) {
    throw DataError(fmt::format("{}: has {} classes, but the model was trained for {}", model.config.data.path,
                                info.classes, trained.classes));
  }
}

}  // namespace

void evaluate(Communicator& world, const ApplyOptions& options, bool json, Log& log) {
  TrainedModel model(world, options, log);
  require_answers(model);
  const auto metrics =
      evaluate_split(*model.parts, **model.data, model.split, model.config.train.evaluation_batch_size);
  const std::int64_t examples = examples_of((*model.data)->info(), model.split);
  if (json) {
    nlohmann::ordered_json object = {{"checkpoint", model.checkpoint.path},
                                     {"step", model.checkpoint.header.step},
                                     {"data", model.config.data.path},
                                     {"split", name_of(model.split)},
                                     {"examples", examples}};
    object.update(to_json(metrics));
    log.info(object.dump());
    return;
  }
  log.info(fmt::format("{} (step {}) on {} of {}, {}", model.checkpoint.path, model.checkpoint.header.step,
                       name_of(model.split), model.config.data.path, count_of(examples, "example")));
  for (const Metric& metric : metrics) log.info(fmt::format("  {:15} {:.6g}", metric.name, metric.value));
}

}  // namespace unisono
