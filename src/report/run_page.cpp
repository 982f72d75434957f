#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "page.hpp"
#include "plot/plots.hpp"
#include "sections.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/data/label_names.hpp"
#include "unisono/records/run_folder.hpp"

namespace unisono::report {
namespace {

Page run_page(const ReportOptions& options, Log& log) {
  const RunHistory run = read_history(options.folders.front());
  Page page{.title = run.name(),
            .subtitle = fmt::format("A run of unisono: {}, {}, {}", run.record.status,
                                    count_of(run.record.epochs, "epoch"), count_of(run.record.steps, "step"))};
  page.add(section_of_result(run));
  page.add(section_of_metrics(run));
  page.add(section_of_examples(run, options, log));
  page.add(section_of_steps(run));
  page.add(section_of_time(run));
  page.add(section_of_prediction(run));
  page.add(section_of_timeline(run));
  page.add(section_of_failures(run));
  page.add(section_of_counters(run));
  page.add(section_of_pipeline(run, options));
  page.add(section_of_other_figures(run));
  page.add(section_of_settings(run, options.models));
  return page;
}

using Json = nlohmann::ordered_json;

std::string whole(double value) { return grouped(static_cast<std::int64_t>(value)); }

class Facts {
 public:
  void add(const std::string& name, const std::string& value) {
    if (!value.empty()) table_.rows.push_back({name, value});
  }
  Table table() && { return std::move(table_); }

 private:
  Table table_{.caption = "What was trained"};
};

std::string ranks_of(const Json& summary) {
  const double ranks = number_in(summary, "ranks"), threads = number_in(summary, "threads");
  if (!(ranks > 0)) return "";
  return fmt::format("{} × {}", count_of(static_cast<std::int64_t>(ranks), "rank"),
                     count_of(static_cast<std::int64_t>(threads), "thread"));
}

Table facts_of(const RunHistory& run) {
  const Json& summary = run.summary;
  Facts facts;
  facts.add("folder", run.record.folder);
  facts.add("model", run.setting("model.kind"));
  if (const double parameters = number_in(summary, "parameters"); parameters >= 0) {
    facts.add("parameters", whole(parameters));
  }
  facts.add("data", run.setting("data.path"));
  facts.add("optimizer", run.setting("optimizer.kind"));
  facts.add("strategy", run.setting("strategy.kind"));
  facts.add("ranks", ranks_of(summary));
  facts.add("device", summary.value("device", run.setting("device")));
  facts.add("examples of a step", run.setting("train.batch_size"));
  const std::string steps = run.setting("train.steps");  // none: an older run, or each epoch is a step
  const bool is_in_steps = !steps.empty() && steps != "0";
  facts.add(is_in_steps ? "steps planned" : "epochs planned", is_in_steps ? steps : run.setting("train.epochs"));
  if (run.steps_per_epoch > 0) facts.add("steps of an epoch", whole(run.steps_per_epoch));
  facts.add("seed", run.record.seed());
  facts.add("fault", summary.value("fault", ""));
  return std::move(facts).table();
}

/// The last values of metrics, split by split.
Table result_table(const RunHistory& run, const std::string& caption, const std::vector<std::string>& metrics) {
  Table table{.caption = caption, .head = {"split"}};
  for (const std::string& metric : metrics) table.head.push_back(words_of(metric));
  for (const std::string split : {"train", "validation", "test"}) {
    std::vector<std::string> row = {split};
    bool any = false;
    for (const std::string& metric : metrics) {
      const auto found = run.record.metrics.find(split + " " + metric);
      const bool known = found != run.record.metrics.end();
      any = any || known;
      row.push_back(known ? number_text(found->second) : "");
    }
    if (any) table.rows.push_back(std::move(row));
  }
  return table;
}

Table ending_table(const RunHistory& run) {
  const Json& summary = run.summary;
  Table table{.caption = "How it ended", .rows = {{"status", run.record.status}}};
  table.rows.push_back({"epochs made", grouped(run.record.epochs)});
  table.rows.push_back({"steps made", grouped(run.record.steps)});
  if (const double resumed = number_in(summary, "resumed_at_step"); resumed > 0) {
    table.rows.push_back({"resumed at step", whole(resumed)});
  }
  if (const Json best = summary.value("best", Json::object()); best.contains("metric") && best.contains("value")) {
    table.rows.push_back(
        {"best " + best.value("metric", ""),
         fmt::format("{}, epoch {}", number_text(number_in(best, "value")), number_text(number_in(best, "epoch")))});
  }
  if (const Json early = summary.value("stopped_early", Json()); early.is_object()) {
    const double kept = number_in(early, "weights_of_epoch");
    table.rows.push_back({"stopped early", kept > 0 ? "with the weights of epoch " + number_text(kept) : "yes"});
  }
  if (run.record.examples_per_second > 0) {
    table.rows.push_back({"examples per second", number_text(std::round(run.record.examples_per_second))});
  }
  if (summary.contains("seconds")) {
    table.rows.push_back({"time", duration_text(number_in(summary["seconds"], "total"))});
  }
  return table;
}

/// The effective config of a text without some of its keys; nothing where it cannot be read without them.
std::optional<std::string> without(const std::string& text, const std::vector<std::string>& keys,
                                   const models::ModelKinds& models) {
  try {
    const ConfigText config{.path = "config.toml", .text = text, .overrides = {}, .removals = keys};
    return effective_config(settings::parse_config(config, models));
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

const PageKind kRunPage = {
    .what = "a run",
    .fits = [](const auto& folders) { return folders.size() == 1 && records::holds_run(folders.front()); },
    .make = run_page};

Section section_of_settings(const RunHistory& run, const models::ModelKinds& models) {
  Table chosen{.caption = "Settings other than the defaults", .head = {"key", "value"}};
  for (const auto& [key, value] : chosen_keys(run.config, models)) chosen.rows.push_back({key, value});
  return {
      .title = "Settings",
      .blocks = {facts_of(run), std::move(chosen), Folded{.summary = "The whole config in force", .text = run.config},
                 Folded{.summary = "The log", .text = run.log}}};
}

Section section_of_result(const RunHistory& run) {
  Section section{.title = "Result", .blocks = {ending_table(run)}};
  for (auto& table : {result_table(run, "Metrics at the end", run.metrics()),
                      result_table(run, "Other metrics at the end", run.other_metrics())}) {
    if (!table.rows.empty()) section.blocks.emplace_back(table);
  }
  return section;
}

std::vector<std::pair<std::string, std::string>> chosen_keys(const std::string& effective,
                                                             const models::ModelKinds& models) {
  const std::optional<std::string> whole = without(effective, {}, models);
  std::vector<std::pair<std::string, std::string>> chosen;
  for (const auto& [key, value] : records::config_entries(effective)) {
    if (!whole || without(effective, {key}, models) != whole) chosen.emplace_back(key, value);
  }
  return chosen;
}

namespace {

constexpr double kFarApart = 50;  // largest value / smallest value of a logarithmic axis

/// What curves do: "train: from 2.3 to 0.32; …"
std::string course_of(const std::vector<plot::Series>& series) {
  std::string text;
  for (const plot::Series& one : series) {
    if (one.y.empty()) continue;
    text += fmt::format("{}{}from {} to {}", text.empty() ? "" : "; ", one.name.empty() ? "" : one.name + ": ",
                        number_text(one.y.front()), number_text(one.y.back()));
  }
  return text;
}

/// A plot of the curves that there are; none where there are none.
void add_plot(Section& section, const RunHistory& run, const std::string& title,
              const std::vector<std::pair<std::string, std::string>>& curves_and_names) {
  std::vector<plot::Series> series;
  for (const auto& [curve, name] : curves_and_names) {
    if (!run.curve(curve).empty()) series.push_back(series_of(run, curve, name));
  }
  if (series.empty()) return;
  section.blocks.push_back(curves_drawing(title, epoch_label(run), std::move(series)));
}

/// The lines of evaluations have few points, which are seen.
plot::Mark mark_of(const std::string& curve, std::size_t points) {
  return curve.starts_with("train ") || points > 60 ? plot::Mark::line : plot::Mark::line_and_points;
}

Table table_of_evaluations(const RunHistory& run) {
  Table table{.caption = "Evaluations", .head = {"step", "epoch"}};
  std::vector<const Curve*> curves;
  for (const std::string split : {"validation", "test"}) {
    for (const std::string& metric : run.metrics()) {
      const Curve& curve = run.curve(split + " " + metric);
      if (curve.empty()) continue;
      curves.push_back(&curve);
      table.head.push_back(split + " " + words_of(metric));
    }
  }
  std::map<double, std::vector<std::string>> rows;
  for (std::size_t c = 0; c < curves.size(); ++c) {
    for (std::size_t i = 0; i < curves[c]->steps.size(); ++i) {
      auto& row = rows[curves[c]->steps[i]];
      row.resize(curves.size());
      row[c] = number_text(curves[c]->values[i]);
    }
  }
  for (auto& [step, cells] : rows) {
    cells.insert(cells.begin(), {number_text(step), number_text(run.epochs_of({step}).front())});
    if (run.restored_step) cells.emplace_back(step == *run.restored_step ? "restored" : "");
    table.rows.push_back(std::move(cells));
  }
  if (run.restored_step) table.head.emplace_back("weights");
  return table;
}

}  // namespace

plot::Axis axis_for(const std::vector<plot::Series>& series) {
  plot::Span span;
  for (const plot::Series& one : series) span.add(one.y);
  const auto range = span.range();
  const bool logarithmic = range && range->minimum > 0 && range->maximum > kFarApart * range->minimum;
  plot::Axis axis;
  if (logarithmic) axis.spacing = plot::Spacing::logarithmic;
  return axis;
}

plot::Series series_of(const RunHistory& run, const std::string& curve, const std::string& name) {
  const Curve& found = run.curve(curve);
  plot::Series series{.name = name, .x = run.epochs_of(found.steps), .y = found.values};
  series.mark = mark_of(curve, found.steps.size());
  return series;
}

std::string epoch_label(const RunHistory& run) {
  if (run.steps_per_epoch <= 0) return "step";
  return fmt::format("epoch, of {}", count_of(std::llround(run.steps_per_epoch), "step"));
}

Drawing curves_drawing(const std::string& title, const std::string& x_label, std::vector<plot::Series> series) {
  plot::XyPlot plot;
  plot.caption = {.title = title, .description = course_of(series)};
  plot.x.label = x_label;
  plot.x.minimum = 0;
  plot.y = axis_for(series);
  plot.series = std::move(series);
  plot.width = 545;
  return drawing_of(plot);
}

Section section_of_metrics(const RunHistory& run) {
  Section section{.title = "Losses and metrics"};
  for (const std::string& metric : run.metrics()) {
    add_plot(section, run, words_of(metric),
             {{"train " + metric, "train"}, {"validation " + metric, "validation"}, {"test " + metric, "test"}});
  }
  if (Table table = table_of_evaluations(run); !table.rows.empty()) section.blocks.emplace_back(std::move(table));
  return section;
}

Section section_of_steps(const RunHistory& run) {
  Section section{.title = "Steps"};
  add_plot(section, run, "learning rate", {{"train learning_rate", ""}});
  add_plot(section, run, "norm of the gradient", {{"train gradient_norm", ""}});
  add_plot(section, run, "norm of the parameters", {{"train parameter_norm", ""}});
  add_plot(section, run, "objective", {{"train objective", ""}});
  add_plot(section, run, "largest element of the gradient", {{"train gradient_magnitude", ""}});
  add_plot(section, run, "length of the step", {{"train step_length", ""}});
  add_plot(section, run, "passes over the set", {{"train passes", ""}});
  return section;
}

namespace {

constexpr std::size_t kMostOutputs = 8;

/// Channels as a picture has them: one, or three, interleaved.
std::string picture_of(const std::vector<float>& features, const data::FeatureShape& shape) {
  const auto [least, largest] = std::minmax_element(features.begin(), features.end());
  // Features that are not from 0 to 1 have been normalised, and are stretched.
  const bool plain = *least >= 0 && *largest <= 1;
  const float low = plain ? 0 : *least, range = plain ? 1 : std::max(1e-12F, *largest - *least);
  const auto pixels = static_cast<std::size_t>(shape.height * shape.width);
  const std::size_t channels = shape.channels == 3 ? 3 : 1;
  std::vector<std::uint8_t> bytes(pixels * channels);
  for (std::size_t p = 0; p < pixels; ++p) {
    for (std::size_t c = 0; c < channels; ++c) {
      bytes[p * channels + c] = static_cast<std::uint8_t>(
          std::lround(255 * std::clamp((features[c * pixels + p] - low) / range, 0.0F, 1.0F)));
    }
  }
  return png_of(static_cast<int>(shape.width), static_cast<int>(shape.height), static_cast<int>(channels), bytes);
}

std::string values_text(const std::vector<float>& values) {
  std::string text;
  for (std::size_t i = 0; i < std::min(values.size(), kMostOutputs); ++i) {
    text += (i == 0 ? "" : ", ") + number_text(values[i]);
  }
  return values.size() > kMostOutputs ? text + ", …" : text;
}

/// What the example is, and what the model takes it for.
struct Judged {
  std::string truth, predicted;
};
Judged judged(const records::WorstExample& worst, const records::ModelExamples& examples) {
  if (!examples.labels.empty()) {
    const auto text = [&](const std::vector<float>& values) {
      const std::string labels = data::join_labels(values, examples.labels);
      return labels.empty() ? "none" : labels;
    };
    return {text(worst.answer), text(worst.outputs)};
  }
  if (!examples.reading) return {values_text(worst.answer), values_text(worst.outputs)};
  return {class_name(examples.classes, static_cast<Index>(worst.answer.front())),
          class_name(examples.classes, examples.reading->class_of(worst.outputs))};
}

Pictures pictures_of(const records::ModelExamples& examples) {
  Pictures pictures;
  for (const records::WorstExample& one : examples.worst) {
    const auto [truth, predicted] = judged(one, examples);
    pictures.pictures.push_back(
        {.png = picture_of(one.features, examples.features),
         .meaning = fmt::format("example {}: {}, predicted: {}", one.number, truth, predicted),
         .lines = {fmt::format("{}, predicted {}", truth, predicted),
                   fmt::format("example {}, {}", grouped(one.number), number_text(one.error))}});
    if (!one.file.empty()) pictures.pictures.back().lines.push_back(one.file);
  }
  return pictures;
}

Table table_of(const records::ModelExamples& examples) {
  Table table{.caption = "Worst examples", .head = {"example", "answer", "predicted", examples.error}};
  const bool named =
      std::ranges::any_of(examples.worst, [](const records::WorstExample& one) { return !one.values.empty(); });
  if (named) table.head.emplace_back("values");
  for (const records::WorstExample& one : examples.worst) {
    const auto [truth, predicted] = judged(one, examples);
    table.rows.push_back({grouped(one.number), truth, predicted, number_text(one.error)});
    if (named) table.rows.back().push_back(one.values);
  }
  return table;
}

void add_worst(Section& section, const records::ModelExamples& examples) {
  if (examples.worst.empty()) return;
  if (!examples.are_images) {
    section.blocks.emplace_back(table_of(examples));
    return;
  }
  section.blocks.emplace_back(Paragraph{"Worst examples, by " + examples.error + ":"});
  section.blocks.emplace_back(pictures_of(examples));
}

Table table_of(const records::Neighbours& neighbours) {
  Table rows{.caption = "Nearest neighbours of the first " + neighbours.table,
             .head = {"name", "neighbours, with their cosines"}};
  for (const records::Neighbours::NamedNeighbours& row : neighbours.rows) {
    std::string list;
    for (const auto& [name, cosine] : row.neighbours) {
      list += fmt::format("{}{} {:.2f}", list.empty() ? "" : ", ", name, cosine);
    }
    rows.rows.push_back({row.name, list});
  }
  return rows;
}

Table table_of(const records::SplitEvaluation& evaluation) {
  Table table{.caption = "Evaluation"};
  table.rows.push_back({"checkpoint", evaluation.checkpoint});
  table.rows.push_back({"step", grouped(evaluation.step)});
  table.rows.push_back({"data", evaluation.data});
  table.rows.push_back({"examples", grouped(evaluation.examples)});
  for (const auto& metric : evaluation.metrics) {
    table.rows.push_back({words_of(metric.name), number_text(metric.value)});
  }
  return table;
}

constexpr Index kMostMatrixClasses = 60;

plot::MatrixPlot matrix_plot(const records::ConfusionMatrix& matrix, const std::vector<std::string>& names) {
  plot::MatrixPlot plot;
  plot.caption = {.title = "Confusion matrix",
                  .description =
                      "How many examples of each class were taken for which class; shaded by their share of "
                      "the class."};
  plot.row_label = "label";
  plot.column_label = "predicted";
  for (Index label = 0; label < matrix.classes(); ++label) {
    plot.rows.push_back(class_name(names, label));
    for (Index predicted = 0; predicted < matrix.classes(); ++predicted) {
      const auto count = static_cast<double>(matrix.cell(label, predicted));
      plot.values.push_back(count);
      plot.shades.push_back(count / static_cast<double>(std::max<std::int64_t>(1, matrix.support(label))));
    }
  }
  plot.columns = plot.rows;
  return plot;
}

std::string class_figure_text(double figure) {
  return std::isnan(figure) ? "undefined" : fmt::format("{:.3f}", figure);
}

std::vector<std::string> figures_row(const std::string& name, const records::ClassFigures& figures) {
  return {name, grouped(figures.support), class_figure_text(figures.precision), class_figure_text(figures.recall),
          class_figure_text(figures.f1)};
}

Table class_table(const records::ConfusionMatrix& matrix, const std::vector<std::string>& names) {
  Table table{.caption = "Classes", .head = {"class", "examples", "precision", "recall", "F1"}};
  for (Index label = 0; label < matrix.classes(); ++label) {
    table.rows.push_back(figures_row(class_name(names, label), matrix.of(label)));
  }
  return table;
}

Table label_table(const records::ModelExamples& examples) {
  const records::MultilabelCounts& counts = *examples.label_counts;
  const std::vector<records::RankingFigures>& ranking = examples.ranking;
  Table table{.caption = "Labels", .head = {"label", "examples", "precision", "recall", "F1"}};
  for (Index label = 0; label < counts.labels(); ++label) {
    table.rows.push_back(figures_row(class_name(examples.labels, label), counts.of(label)));
    if (!ranking.empty())
      table.rows.back().push_back(class_figure_text(ranking[static_cast<std::size_t>(label)].average_precision));
  }
  table.rows.push_back(figures_row("macro mean", counts.macro_mean()));
  if (!ranking.empty()) {
    table.head.emplace_back("average precision");
    table.rows.back().push_back(class_figure_text(records::mean_of(ranking).average_precision));
  }
  table.rows.push_back(figures_row("micro mean", counts.micro_mean()));
  return table;
}

constexpr std::size_t kMostCurves = 10;

/// Which of the curves are drawn: those of the classes with the most examples.
std::vector<std::size_t> drawn_curves(const records::ModelExamples& examples) {
  std::vector<std::size_t> drawn;
  for (std::size_t k = 0; k < examples.curves.size(); ++k) {
    if (!examples.curves[k].roc.empty()) drawn.push_back(k);
  }
  const auto support = [&](std::size_t k) {
    if (examples.label_counts) return examples.label_counts->support(static_cast<Index>(k));
    return examples.matrix ? examples.matrix->support(static_cast<Index>(k)) : 0;
  };
  if (drawn.size() > kMostCurves) {
    std::ranges::stable_sort(drawn, [&](std::size_t a, std::size_t b) { return support(a) > support(b); });
    drawn.resize(kMostCurves);
    std::ranges::sort(drawn);
  }
  return drawn;
}

/// What is drawn of curves.
struct CurveKind {
  std::string title, x, y, description;
  std::vector<records::CurvePoint> records::RankingCurves::*points;
  double records::RankingFigures::*area;
};

/// A curve of the second of two classes, or of each class against the rest.
Drawing drawing_of_curves(const records::ModelExamples& examples, const CurveKind& kind) {
  plot::XyPlot plot;
  plot.caption = {.title = kind.title, .description = kind.description};
  plot.x.label = kind.x;
  plot.y.label = kind.y;
  plot.x.minimum = plot.y.minimum = 0;
  plot.x.maximum = plot.y.maximum = 1;
  plot.width = 545;
  const bool are_labels = !examples.labels.empty(), two = examples.curves.size() == 1 && !are_labels;
  for (const std::size_t k : drawn_curves(examples)) {
    plot::Series series;
    series.name = fmt::format(
        "{}: area {:.3f}", class_name(are_labels ? examples.labels : examples.classes, two ? 1 : static_cast<Index>(k)),
        examples.ranking[k].*kind.area);
    for (const records::CurvePoint& point : examples.curves[k].*kind.points) {
      series.x.push_back(point.x);
      series.y.push_back(point.y);
    }
    plot.series.push_back(std::move(series));
  }
  return drawing_of(plot);
}

void add_curves(Section& section, const records::ModelExamples& examples) {
  const std::size_t drawn = drawn_curves(examples).size();
  if (drawn == 0) return;
  if (drawn == kMostCurves && examples.curves.size() > kMostCurves) {
    section.blocks.emplace_back(
        Paragraph{fmt::format("The curves are those of the {} classes with the most examples.", kMostCurves)});
  }
  section.blocks.emplace_back(
      drawing_of_curves(examples, {.title = "ROC curve",
                                   .x = "false positive rate",
                                   .y = "true positive rate",
                                   .description = "What share of a class is found, against what share of the others is "
                                                  "taken for it, threshold by threshold.",
                                   .points = &records::RankingCurves::roc,
                                   .area = &records::RankingFigures::roc_auc}));
  section.blocks.emplace_back(drawing_of_curves(
      examples, {.title = "Precision and recall",
                 .x = "recall",
                 .y = "precision",
                 .description = "How many of those taken for a class are of it, against what share of "
                                "the class is found, threshold by threshold.",
                 .points = &records::RankingCurves::precision_recall,
                 .area = &records::RankingFigures::average_precision}));
}

}  // namespace

Section section_of_examples(const RunHistory& run, const ReportOptions& options, Log& log) {
  Section section{.title = "Examples"};
  if (options.examples == 0 || !options.apply_model) return section;
  try {
    const records::ModelExamples examples = options.apply_model(run.record.folder, log);
    if (examples.matrix) add_matrix(section, *examples.matrix, examples.classes);
    if (examples.label_counts) section.blocks.emplace_back(label_table(examples));
    add_curves(section, examples);
    add_worst(section, examples);
    for (const records::Neighbours& neighbours : examples.neighbours) section.blocks.emplace_back(table_of(neighbours));
    if (examples.evaluation) section.blocks.emplace_back(table_of(*examples.evaluation));
  } catch (const Error& error) {
    log.warning(fmt::format("{}: the report has no examples: {}", run.record.folder, error.what()));
    section.blocks.emplace_back(Paragraph{fmt::format("The model could not be applied: {}", error.what())});
  }
  return section;
}

std::string class_name(const std::vector<std::string>& names, Index label) {
  const auto i = static_cast<std::size_t>(label);
  return i < names.size() ? names[i] : fmt::format("{}", label);
}

void add_matrix(Section& section, const records::ConfusionMatrix& matrix, const std::vector<std::string>& names) {
  if (matrix.classes() <= kMostMatrixClasses) section.blocks.emplace_back(drawing_of(matrix_plot(matrix, names)));
  section.blocks.emplace_back(class_table(matrix, names));
}

}  // namespace unisono::report
