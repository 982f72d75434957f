#include "unisono/apply/evaluate.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include "figures/figures.hpp"
#include "model/best.hpp"
#include "unisono/apply/answers.hpp"
#include "unisono/apply/trained_model.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/records/json_line.hpp"
#include "unisono/records/metrics_log.hpp"
#include "unisono/records/progress.hpp"
#include "unisono/session/evaluation.hpp"
#include "unisono/session/run_checks.hpp"
#include "vectors/tables.hpp"

namespace unisono::apply {
namespace {

/// The model's kind of answers, for the split that is evaluated.
void require_answers(const TrainedModel& model) {
  const data::DatasetInfo& info = (*model.data)->info();
  const bool is_of_texts = info.kind == data::SetKind::tokens && model.checkpoint.header.inputs.classes > 0;
  if (session::has_names(info.kind) && !is_of_texts) return;  // each example is its own answer
  const models::ModelInputs& trained = model.checkpoint.header.inputs;
  const data::TargetForm& there = info.targets[static_cast<std::size_t>(model.split)];
  const std::string group = model.reads_raw_file() ? "" : fmt::format(" /{}", data::name_of(model.split));
  const std::string where = model.source + ":" + group;
  if (model.raw && !model.raw->left_out().empty()) {
    throw DataError(model.raw->left_out() +
                    "; correct or leave out what lacks labels or targets, or use 'unisono predict', which needs none");
  }
  if (!there.labels && there.target_size == 0) {
    const data::Preprocessing& preprocessing = model.checkpoint.header.preprocessing;
    const data::Recipe& recipe = preprocessing.recipe;
    std::vector<std::string> columns =
        preprocessing.columns.empty() ? std::vector<std::string>() : label_names_of(model);
    if (columns.empty()) columns = {recipe.label.empty() ? recipe.target : recipe.label};
    if (model.reads_raw_file() && !columns.front().empty()) {
      throw DataError(fmt::format("{} has no {} '{}' to compare with; use 'unisono predict'", where,
                                  columns.size() > 1 ? "columns" : "column", fmt::join(columns, "', '")));
    }
    throw DataError(where + " has neither labels nor targets to compare with; use 'unisono predict'");
  }
  if (trained.classes > 0 && !there.labels) {
    throw DataError(where + " has no labels, but the model was trained with labels; use 'unisono predict'");
  }
  if (trained.target_size > 0 && there.target_size == 0) {
    throw DataError(
        fmt::format("{} has a class for each example, but the model was trained on {}; use 'unisono predict'", where,
                    label_names_of(model).empty() ? count_of(trained.target_size, "target value")
                                                  : "several labels of an example"));
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

/// The metrics of the model's split, and all figures of a classifier. Collective.
session::SplitFigures evaluate_model(TrainedModel& model, bool curves = false) {
  return session::evaluate_with_figures(*model.parts, **model.data, model.split, model.config, class_reading(model),
                                        curves);
}

/// How good the recommendations of a model of ratings are. Collective.
void add_recommendations(comm::Communicator& world, TrainedModel& model, const EvaluateOptions& how,
                         const Report& report, Log& log) {
  const models::ModelInputs& inputs = model.checkpoint.header.inputs;
  if (inputs.kind == data::SetKind::ratings && how.at > 0) {
    constexpr Index kMany = 2'000'000'000;
    if (world.is_root() && inputs.rows > kMany / std::max<Index>(1, inputs.columns)) {
      log.warning(fmt::format("ranking {} items for up to {} users takes a while; --at 0 skips it",
                              grouped(inputs.columns), grouped(inputs.rows)));
    }
    RecommendationFigures ranking = recommend_split(model, model.parts->grid.data(), how.at, how.relevant);
    constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();
    const bool is_undefined = session::is_undefined(model.config, *model.parts->model, **model.data, model.split);
    if (is_undefined) ranking.mean = {kUndefined, kUndefined, kUndefined};
    report.add(ranking);
  }
}

/// Examples about which the training examples say nothing.
void say_unseen(comm::Communicator& world, TrainedModel& model, const ApplyOptions& options,
                nlohmann::ordered_json& object, Log& log) {
  if (!world.is_root()) return;
  const std::vector<std::string>& absent = (*model.data)->info().absent_labels;
  if (!absent.empty() && answer_kind(model).width > 0) {
    log.warning(fmt::format("{}: does not name the label{} {}, so that no example has {}", model.source,
                            absent.size() == 1 ? "" : "s", fmt::join(absent, ", "),
                            absent.size() == 1 ? "it" : "them"));
  }
  const std::string text = session::unseen_text(model.config, *model.parts->model, **model.data, model.split,
                                                class_names_of(model, options));
  if (text.empty()) return;
  log.warning(fmt::format("{}: {}", model.source, text));
  object["unseen"] = session::to_json((*model.data)->unseen(model.split));
}

void print_evaluation(comm::Communicator& world, const ApplyOptions& options, const EvaluateOptions& how, Log& log) {
  TrainedModel model(world, options, log);
  require_answers(model);
  require_threshold(model);
  const session::SplitFigures found = evaluate_model(model);
  const std::int64_t examples = session::examples_of((*model.data)->info(), model.split);
  nlohmann::ordered_json object = {{"checkpoint", model.checkpoint.path},
                                   {"step", model.checkpoint.header.step},
                                   {"data", model.source},
                                   {"split", data::name_of(model.split)},
                                   {"examples", examples}};
  const std::string threshold = threshold_text(model);
  if (!threshold.empty()) object["threshold"] = *model.threshold;
  object.update(records::to_json(found.metrics));
  say_unseen(world, model, options, object, log);
  std::vector<std::string> lines;
  const bool has_figures = class_reading(model) || !label_names_of(model).empty();
  const int width = has_figures ? 27 : 15;  // of the names below these
  for (const models::Metric& metric : found.metrics)
    lines.push_back(fmt::format("  {:{}} {}", metric.name, width, records::metric_text(metric.value, 6)));
  const Report report{object, lines};
  if (found.classes)
    report.add(*found.classes, world.is_root() ? class_names_of(model, options) : std::vector<std::string>{});
  if (found.labels) report.add(*found.labels, label_names_of(model));
  add_recommendations(world, model, how, report, log);
  if (how.json) return log.info(records::json_line(object));
  log.info(fmt::format("{} (step {}) on {}, {}", model.checkpoint.path, model.checkpoint.header.step, model.data_text(),
                       count_of(examples, "example")));
  if (!threshold.empty()) log.info("  " + threshold);
  for (const std::string& line : lines) log.info(line);
}

}  // namespace

void evaluate(comm::Communicator& world, const ApplyOptions& options, const EvaluateOptions& how, Log& log) {
  naming_input(options, [&] { print_evaluation(world, options, how, log); });
}

namespace {

constexpr Index kNeighboursOf = 16;
constexpr std::size_t kNeighbours = 6;

std::unique_ptr<data::EvaluationSource> pass_over(TrainedModel& model) {
  return (*model.data)->evaluate(model.split, 0, 1, model.config.train.evaluation_batch_size, model.parts->delivery());
}

/// Of classes: how much of the probability goes elsewhere, or how far the label's margin is below the largest other.
double class_error(const records::ClassReading& reading, View outputs, float answer) {
  const auto label = static_cast<std::size_t>(answer);
  if (reading.outputs == 1) {
    const double wrong = answer > 0.5F ? -outputs[0] : outputs[0];
    return reading.probabilities && answer > 0.5F ? 1 + wrong : wrong;
  }
  if (label >= outputs.size()) return 0;
  if (reading.probabilities) return 1 - outputs[label];
  double largest = -std::numeric_limits<double>::infinity();
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    if (k != label) largest = std::max<double>(largest, outputs[k]);
  }
  return largest - outputs[label];
}

double distance(View outputs, View answer) {
  double squares = 0;
  for (std::size_t i = 0; i < std::min(outputs.size(), answer.size()); ++i) {
    squares += (outputs[i] - answer[i]) * (outputs[i] - answer[i]);
  }
  return std::sqrt(squares);
}

/// Outputs and answers of a whole split, row by row.
struct Predictions {
  std::vector<float> outputs, answers;
  std::size_t output_size, answer_size;

  View outputs_of(std::size_t i) const { return View(outputs).subspan(i * output_size, output_size); }
  View answer_of(std::size_t i) const { return View(answers).subspan(i * answer_size, answer_size); }
  std::size_t size() const { return answer_size == 0 ? 0 : answers.size() / answer_size; }
};

Predictions predictions_of(TrainedModel& model) {
  Predictions all{.outputs = {},
                  .answers = {},
                  .output_size = static_cast<std::size_t>(model.parts->model->output_size()),
                  .answer_size = static_cast<std::size_t>(answer_kind(model).width)};
  const auto source = pass_over(model);
  std::vector<float> rows;
  while (const auto batch = source->next()) {
    rows.resize(static_cast<std::size_t>(batch->size) * all.output_size);
    model.parts->model->predict(*batch, model.parts->state(), rows);
    all.outputs.insert(all.outputs.end(), rows.begin(), rows.end());
    const std::vector<float> answers = models::answers_of(*batch);
    all.answers.insert(all.answers.end(), answers.begin(), answers.end());
  }
  return all;
}

/// Another pass over the set, for the features of a few examples.
void add_features(TrainedModel& model, std::vector<records::WorstExample>& worst) {
  const auto source = pass_over(model);
  std::int64_t first = source->first();
  while (const auto batch = source->next()) {
    const auto width = batch->size > 0 ? batch->features.size() / static_cast<std::size_t>(batch->size) : 0;
    for (records::WorstExample& one : worst) {
      if (one.number < first || one.number >= first + batch->size) continue;
      const View features = batch->features.subspan(static_cast<std::size_t>(one.number - first) * width, width);
      one.features.assign(features.begin(), features.end());
    }
    first += batch->size;
  }
}

/// A feature without its normalisation.
double raw_value(const data::Normalization& normalization, View features, std::size_t i) {
  const std::size_t at = normalization.mean.size() == 1 ? 0 : i;
  if (at >= normalization.mean.size()) return double{features[i]};
  return double{features[i]} / double{normalization.scale[at]} + double{normalization.mean[at]};
}

/// "age = 39, colour = red, …": the values of an example's columns before they were encoded; empty: they have no names.
std::string values_text(const data::Preprocessing& preprocessing, View features) {
  constexpr std::size_t kMostColumns = 12;
  std::vector<data::FittedColumn> columns = preprocessing.columns;
  if (columns.empty()) {
    for (const std::string& name : preprocessing.feature_names) columns.push_back({.name = name});
  }
  std::string text;
  std::size_t i = 0;
  for (std::size_t column = 0; column < columns.size() && column < kMostColumns; ++column) {
    const data::FittedColumn& one = columns[column];
    const auto width = static_cast<std::size_t>(one.width());
    if (i + width > features.size()) break;
    std::string value = one.kind == data::ColumnKind::number
                            ? fmt::format("{:.6g}", raw_value(preprocessing.normalization, features, i))
                            : "other";
    for (std::size_t level = 0; level < one.levels.size() && one.kind != data::ColumnKind::number; ++level) {
      if (raw_value(preprocessing.normalization, features, i + level) > 0.5)
        value = one.levels[level].empty() ? "(missing)" : one.levels[level];
    }
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", one.name, value);
    i += width;
  }
  return columns.size() > kMostColumns ? text + ", …" : text;
}

/// Of what the worst examples are ordered by: "1 − probability of the label", "distance from the target", …
std::string error_name(const TrainedModel& model, const std::optional<records::ClassReading>& reading) {
  if (!reading) return "distance from the " + (label_names_of(model).empty() ? answer_kind(model).name : "labels");
  return reading->probabilities ? "1 − probability of the label" : "margin by which another class wins";
}

/// Predicts a split, and returns the examples with the largest errors, the largest first. \pre the split has answers
std::vector<records::WorstExample> worst_examples(TrainedModel& model,
                                                  const std::optional<records::ClassReading>& reading,
                                                  std::size_t count) {
  const Predictions all = predictions_of(model);
  Best best(count);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double error = reading ? class_error(*reading, all.outputs_of(i), all.answer_of(i)[0])
                                 : distance(all.outputs_of(i), all.answer_of(i));
    best.offer({.row = static_cast<Index>(i), .score = error});
  }
  std::vector<records::WorstExample> worst;
  for (const auto& [row, error] : best.take()) {
    const auto i = static_cast<std::size_t>(row);
    const View outputs = all.outputs_of(i), answer = all.answer_of(i);
    worst.push_back({.number = row,
                     .answer = {answer.begin(), answer.end()},
                     .outputs = {outputs.begin(), outputs.end()},
                     .error = error,
                     .features = {},
                     .values = {}});
  }
  add_features(model, worst);
  const std::vector<std::string> files = (*model.data)->file_names(model.split);
  for (records::WorstExample& one : worst) {
    one.values = values_text(model.checkpoint.header.preprocessing, one.features);
    if (!files.empty()) one.file = files[static_cast<std::size_t>(one.number)];
  }
  return worst;
}

void add_worst(records::ModelExamples& examples, TrainedModel& model, std::size_t most) {
  if (answer_kind(model).width == 0) return;
  const data::DatasetInfo& info = (*model.data)->info();
  examples.error = error_name(model, examples.reading);
  examples.worst = worst_examples(model, examples.reading, most);
  examples.features = info.features;
  examples.are_images = info.kind == data::SetKind::table && info.features.height > 1 && info.features.width > 1;
}

std::vector<records::Neighbours> neighbours_of(const TrainedModel& model) {
  std::vector<records::Neighbours> all;
  for (const models::VectorTable& table : model.parts->model->vectors(model.parts->parameters.view())) {
    const data::NameTable names = names_of(model, table);
    std::vector<Index> asked;
    for (Index row = 0; row < std::min(kNeighboursOf, table.rows); ++row) asked.push_back(row);
    const auto found = nearest(table, model.parts->parameters.view(), asked, kNeighbours);
    records::Neighbours neighbours{.table = table.name};
    for (std::size_t i = 0; i < found.size(); ++i) {
      records::Neighbours::NamedNeighbours row{.name = names.names[i], .neighbours = {}};
      for (const Scored& one : found[i]) {
        row.neighbours.emplace_back(names.names[static_cast<std::size_t>(one.row)], one.score);
      }
      neighbours.rows.push_back(std::move(row));
    }
    all.push_back(std::move(neighbours));
  }
  return all;
}

/// What is known of the whole split, and of its classes.
void add_evaluation(records::ModelExamples& examples, TrainedModel& model) {
  const bool is_held_out = model.split != data::Split::train;  // training sets may take long
  if (!is_held_out && !examples.reading && examples.labels.empty()) return;
  session::SplitFigures found = evaluate_model(model, /*curves=*/true);
  if (found.classes) {
    examples.curves = std::move(found.classes->curves);
    examples.ranking = std::move(found.classes->ranking);
    if (found.classes->matrix.has_cells()) examples.matrix = std::move(found.classes->matrix);
  }
  if (found.labels) {
    examples.curves = std::move(found.labels->curves);
    examples.ranking = std::move(found.labels->ranking);
    examples.label_counts = std::move(found.labels->counts);
  }
  if (!is_held_out) return;
  examples.evaluation = {.checkpoint = model.checkpoint.path,
                         .step = model.checkpoint.header.step,
                         .data = model.data_text(),
                         .examples = session::examples_of((*model.data)->info(), model.split),
                         .metrics = std::move(found.metrics)};
}

}  // namespace

records::ModelExamples examples_of_model(const ApplyOptions& options, std::size_t most, Log& log) {
  const auto alone = comm::make_self_communicator();
  TrainedModel model(*alone, options, log);
  model.say_left_out(log);
  records::ModelExamples examples{.reading = class_reading(model), .classes = class_names_of(model, options)};
  examples.labels = label_names_of(model);
  add_evaluation(examples, model);
  add_worst(examples, model, most);
  examples.neighbours = neighbours_of(model);
  return examples;
}

}  // namespace unisono::apply
