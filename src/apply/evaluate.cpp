#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "figures/classification.hpp"
#include "figures/recommendation.hpp"
#include "unisono/apply/evaluate.hpp"
#include "unisono/apply/trained_model.hpp"
#include "unisono/base/text.hpp"
#include "unisono/records/metrics_log.hpp"
#include "unisono/records/progress.hpp"
#include "unisono/session/evaluator.hpp"
#include "unisono/session/run_dictionary.hpp"

namespace unisono::apply {
namespace {

/// The model's kind of answers, for the split that is evaluated.
void require_answers(const TrainedModel& model) {
  const data::DatasetInfo& info = (*model.data)->info();
  if (session::has_names(info.kind)) return;  // each example is its own answer
  const models::ModelInputs& trained = model.checkpoint.header.inputs;
  const data::TargetForm& there = info.targets[static_cast<std::size_t>(model.split)];
  const std::string group = model.reads_raw_file() ? "" : fmt::format(" /{}", data::name_of(model.split));
  const std::string where = model.source + ":" + group;
  if (!there.labels && there.target_size == 0) {
    const data::Recipe& recipe = model.checkpoint.header.preprocessing.recipe;
    const std::string& column = recipe.label.empty() ? recipe.target : recipe.label;
    if (model.reads_raw_file() && !column.empty()) {
      throw DataError(fmt::format("{} has no column '{}' to compare with; use 'unisono predict'", where, column));
    }
    throw DataError(where + " has neither labels nor targets to compare with; use 'unisono predict'");
  }
  if (trained.classes > 0 && !there.labels) {
    throw DataError(where + " has no labels, but the model was trained with labels; use 'unisono predict'");
  }
  if (trained.target_size > 0 && there.target_size != trained.target_size) {
    throw DataError(fmt::format("{} has {} target values per example, but the model was trained on {}", where,
                                there.target_size, trained.target_size));
  }
  if (trained.classes > 0 && info.classes > trained.classes) {
    throw DataError(fmt::format("{}: has {}, but the model was trained for {}", model.source,
                                count_of(info.classes, "class"), trained.classes));
  }
}

struct Report {
  nlohmann::ordered_json& object;
  std::vector<std::string>& lines;

  template <typename Figures, typename... Names>
  void add(const Figures& figures, const Names&... names) const {
    object.update(to_json(figures, names...));
    for (const std::string& line : to_text(figures, names...)) lines.push_back(line);
  }
};

/// Figures that training does not compute.
void add_figures(comm::Communicator& world, TrainedModel& model, const ApplyOptions& options,
                 const EvaluateOptions& how, const Report& report, Log& log) {
  if (const auto reading = class_reading(model)) {
    const auto figures = classify_split(model, model.parts->grid.data(), *reading);
    if (figures) report.add(*figures, world.is_root() ? class_names_of(model, options) : std::vector<std::string>{});
  }
  const models::ModelInputs& inputs = model.checkpoint.header.inputs;
  if (inputs.kind == data::SetKind::ratings && how.at > 0) {
    constexpr Index kMany = 2'000'000'000;
    if (world.is_root() && inputs.rows > kMany / std::max<Index>(1, inputs.columns)) {
      log.warning(fmt::format("ranking {} items for up to {} users takes a while; --at 0 skips it",
                              grouped(inputs.columns), grouped(inputs.rows)));
    }
    report.add(recommend_split(model, model.parts->grid.data(), how.at, how.relevant));
  }
}

void print_evaluation(comm::Communicator& world, const ApplyOptions& options, const EvaluateOptions& how, Log& log) {
  TrainedModel model(world, options, log);
  require_answers(model);
  const auto metrics = session::evaluate_split(*model.parts, **model.data, model.split, model.config);
  const std::int64_t examples = session::examples_of((*model.data)->info(), model.split);
  nlohmann::ordered_json object = {{"checkpoint", model.checkpoint.path},
                                   {"step", model.checkpoint.header.step},
                                   {"data", model.source},
                                   {"split", data::name_of(model.split)},
                                   {"examples", examples}};
  object.update(records::to_json(metrics));
  std::vector<std::string> lines;
  const int width = class_reading(model) ? 27 : 15;  // of the names below these
  for (const models::Metric& metric : metrics)
    lines.push_back(fmt::format("  {:{}} {:.6g}", metric.name, width, metric.value));
  add_figures(world, model, options, how, {object, lines}, log);
  if (how.json) return log.info(object.dump());
  log.info(fmt::format("{} (step {}) on {}, {}", model.checkpoint.path, model.checkpoint.header.step, model.data_text(),
                       count_of(examples, "example")));
  for (const std::string& line : lines) log.info(line);
}

}  // namespace

void evaluate(comm::Communicator& world, const ApplyOptions& options, const EvaluateOptions& how, Log& log) {
  naming_input(options, [&] { print_evaluation(world, options, how, log); });
}

}  // namespace unisono::apply
