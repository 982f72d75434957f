#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "predict/predictor.hpp"
#include "unisono/apply/answers.hpp"
#include "unisono/apply/evaluate.hpp"
#include "unisono/apply/prediction_sink.hpp"
#include "unisono/apply/trained_model.hpp"
#include "unisono/base/clock.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/median.hpp"
#include "unisono/data/import.hpp"
#include "unisono/records/csv_field.hpp"
#include "unisono/session/evaluation.hpp"
#include "vectors/tables.hpp"

namespace unisono::apply {
namespace {

constexpr int kRoot = 0, kTag = 72;

/// The mean of the models' outputs. Batches have the size of the first model's: all cut the split in the same way.
class MeanPredictor {
 public:
  MeanPredictor(TrainedModel& model, const std::vector<std::unique_ptr<TrainedModel>>& others,
                comm::Communicator& world, Index batch_size) {
    predictors_.emplace_back(model, world, batch_size);
    for (const auto& other : others) predictors_.emplace_back(*other, world, batch_size);
  }

  BatchPredictions next() {
    const Stopwatch watch;
    BatchPredictions rows = mean();
    count(rows.range[1], watch.seconds());
    return rows;
  }

  /// How long a batch took here, from its examples in memory to its outputs.
  std::string times() const {
    const std::string batch = fmt::format("a batch of {} took ", grouped(largest_));
    if (seconds_.empty()) return batch + duration_text(first_seconds_) + " (the first, with all preparations)";
    return batch + duration_text(median_of(seconds_)) + " (the median)";
  }

 private:
  /// The first batch also prepares what the others find; none is larger.
  void count(std::int64_t examples, double seconds) {
    if (largest_ == 0) {
      first_seconds_ = seconds;
      largest_ = examples;
    } else if (examples == largest_) {
      seconds_.push_back(seconds);
    }
  }

  BatchPredictions mean() {
    BatchPredictions rows = predictors_.front().next();
    if (predictors_.size() == 1) return rows;
    std::vector<double> sums(rows.values.begin(), rows.values.end());
    for (std::size_t i = 1; i < predictors_.size(); ++i) {
      const BatchPredictions other = predictors_[i].next();
      for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += static_cast<double>(other.values[j]);
    }
    const auto count = static_cast<double>(predictors_.size());
    for (std::size_t j = 0; j < sums.size(); ++j) rows.values[j] = static_cast<float>(sums[j] / count);
    return rows;
  }

  std::vector<Predictor> predictors_;
  double first_seconds_ = 0;
  std::vector<double> seconds_;  ///< of later batches with as many examples as the largest
  std::int64_t largest_ = 0;     ///< examples of a batch
};

/// Checks that a model gives the same outputs for the same examples as the first one. \throws ConfigError
void require_same_outputs(TrainedModel& first, TrainedModel& other, const std::string& path) {
  const auto refuse = [&](bool differs, const std::string& what) {
    if (differs)
      throw ConfigError(fmt::format("--ensemble {}: {}, unlike the first model's; leave it out", path, what));
  };
  const models::Model &a = *first.parts->model, &b = *other.parts->model;
  refuse(a.output_size() != b.output_size(), fmt::format("this model has {}", count_of(b.output_size(), "output")));
  refuse(a.prediction() != b.prediction(), "this model's outputs mean something else");
  const data::Preprocessing &known = first.checkpoint.header.preprocessing,
                            &own = other.checkpoint.header.preprocessing;
  refuse(known.class_names != own.class_names, "this model has other classes, or has them in another order");
  refuse(known.label_names != own.label_names, "this model has other labels, or has them in another order");
  const std::int64_t examples = session::examples_of((*other.data)->info(), other.split);
  refuse(examples != session::examples_of((*first.data)->info(), first.split) || first.split != other.split,
         fmt::format("this model would be applied to {}", count_of(examples, "example")));
}

/// The other models of an ensemble, applied to the same file as the first one. Collective.
std::vector<std::unique_ptr<TrainedModel>> models_beside(TrainedModel& first, comm::Communicator& world,
                                                         const ApplyOptions& options, const PredictOptions& how,
                                                         Log& log) {
  std::vector<std::unique_ptr<TrainedModel>> others;
  for (const std::string& path : how.ensemble) {
    ApplyOptions other = options;
    other.model = path;
    if (other.data.empty() && other.input.empty()) other.data = first.config.data.path;
    if (other.split.empty()) other.split = data::name_of(first.split);
    others.push_back(std::make_unique<TrainedModel>(world, other, log));
    require_same_outputs(first, *others.back(), path);
  }
  return others;
}

void send_rows(comm::Communicator& world, const BatchPredictions& rows) {
  world.send(std::as_bytes(std::span(rows.range)), kRoot, kTag);
  if (rows.range[1] == 0) return;
  world.send(std::as_bytes(std::span(rows.values)), kRoot, kTag);
  if (!rows.answers.empty()) world.send(std::as_bytes(std::span(rows.answers)), kRoot, kTag);
}

/// \param outputs K \param answers A
BatchPredictions receive_rows(comm::Communicator& world, int rank, Index outputs, Index answers) {
  BatchPredictions rows;
  world.receive(std::as_writable_bytes(std::span(rows.range)), rank, kTag);
  rows.values.resize(static_cast<std::size_t>(rows.range[1] * outputs));
  rows.answers.resize(static_cast<std::size_t>(rows.range[1] * answers));
  if (!rows.values.empty()) world.receive(std::as_writable_bytes(std::span(rows.values)), rank, kTag);
  if (!rows.answers.empty()) world.receive(std::as_writable_bytes(std::span(rows.answers)), rank, kTag);
  return rows;
}

/// In rounds: each rank predicts its next batch, and rank 0 writes them, so that it holds at most one batch of each
/// rank.
void collect(comm::Communicator& world, MeanPredictor& predictor, const SinkOptions& options, PredictionSink& sink) {
  std::vector<bool> open(static_cast<std::size_t>(world.size()), true);
  const auto take = [&](int rank, const BatchPredictions& rows) {
    open[static_cast<std::size_t>(rank)] = rows.range[1] > 0;
    if (rows.range[1] > 0) sink.write(rank, rows.range[0], rows.values, rows.answers);
  };
  for (bool any = true; any;) {
    if (open[kRoot]) take(kRoot, predictor.next());
    any = open[kRoot];
    for (int rank = 1; rank < world.size(); ++rank) {
      if (open[static_cast<std::size_t>(rank)])
        take(rank, receive_rows(world, rank, options.outputs, options.answer_width));
      any = any || open[static_cast<std::size_t>(rank)];
    }
  }
  sink.finish();
}

/// The columns that identify the ratings of a split in a CSV file: each one's user and item. Used on rank 0.
class RatingLabels {
 public:
  explicit RatingLabels(TrainedModel& model)
      : users_(names_of(model, choose_table(model, "users"))),
        items_(names_of(model, choose_table(model, "items"))),
        source_((*model.data)->evaluate(model.split, 0, 1, session::examples_of((*model.data)->info(), model.split))),
        batch_(source_->next()) {}

  std::string of(std::int64_t example) const {
    const auto entries = std::get<data::SparseEntries>(*batch_->set);
    const SparseEntry& entry = entries[static_cast<std::size_t>(batch_->ranges.front().first + example)];
    return "," + records::csv_text(users_.names[entry.row]) + "," + records::csv_text(items_.names[entry.column]);
  }

 private:
  data::NameTable users_, items_;
  std::unique_ptr<data::EvaluationSource> source_;
  std::optional<data::Batch> batch_;  ///< all of the split
};

/// The columns of the raw table that are written beside the predictions. Used on rank 0.
void keep_columns(const TrainedModel& model, const ApplyOptions& apply, const PredictOptions& how,
                  SinkOptions& options) {
  const std::string words = "--keep " + how.keep.front();
  const data::Preprocessing& trained = model.checkpoint.header.preprocessing;
  if (!model.reads_raw_file() || (trained.columns.empty() && trained.recipe.text.empty())) {
    throw ConfigError(words + ": only the columns of a CSV file can be kept; name one with --input");
  }
  if (!how.output.ends_with(".csv")) {
    throw ConfigError(
        fmt::format("{}: {} holds arrays of numbers; write a table with --output FILE.csv", words, how.output));
  }
  for (const std::string& name : how.keep) {
    if (std::ranges::count(how.keep, name) > 1) {
      throw ConfigError(fmt::format("--keep {}: is given twice; name each column once", name));
    }
    if (name != "example" && std::ranges::count(columns_of(options), name) == 0) continue;
    throw ConfigError(
        fmt::format("--keep {}: the table of predictions has a column of this name; rename it in the file", name));
  }
  const auto rows = std::make_shared<const std::vector<std::vector<std::string>>>(
      data::read_raw_columns(apply.input, model.checkpoint.header.preprocessing, how.keep));
  for (const std::string& name : how.keep) options.label_names += "," + records::csv_text(name);
  options.label = [rows](std::int64_t example) {
    std::string text;
    for (const std::string& value : rows->at(static_cast<std::size_t>(example))) text += "," + records::csv_text(value);
    return text;
  };
}

/// The files that the examples were made of, where the set names them.
void add_files(const TrainedModel& model, SinkOptions& options) {
  const auto names = std::make_shared<const std::vector<std::string>>((*model.data)->file_names(model.split));
  if (names->empty()) return;
  options.label_names = ",file";
  options.label = [names](std::int64_t example) {
    return "," + records::csv_text(names->at(static_cast<std::size_t>(example)));
  };
}

SinkOptions sink_options(TrainedModel& model, const ApplyOptions& apply, const PredictOptions& how, int ranks) {
  const AnswerKind answer = answer_kind(model);
  SinkOptions options{.path = how.output,
                      .examples = session::examples_of((*model.data)->info(), model.split),
                      .outputs = model.parts->model->output_size(),
                      .classes = class_reading(model),
                      .answer = answer.name,
                      .answer_width = answer.width,
                      .layer = how.layer,
                      .overwrite = how.overwrite,
                      .ranks = ranks};
  options.labels = label_names_of(model);
  if (options.classes || answer.name == "label") options.class_names = class_names_of(model, apply);
  if (model.checkpoint.header.inputs.kind == data::SetKind::ratings && how.output.ends_with(".csv")) {
    options.label_names = ",user,item";
    options.label = [labels = std::make_shared<RatingLabels>(model)](std::int64_t i) { return labels->of(i); };
  }
  if (options.label_names.empty() && how.output.ends_with(".csv")) add_files(model, options);
  if (!how.keep.empty()) keep_columns(model, apply, how, options);
  return options;
}

void predict_into_file(comm::Communicator& world, const ApplyOptions& options, const PredictOptions& how, Log& log) {
  TrainedModel model(world, options, log);
  if (world.is_root()) model.say_left_out(log);
  if (!how.layer.empty()) model.parts->model->predict_layer(how.layer);
  require_threshold(model);
  if (!how.ensemble.empty() && !model.threshold_is_given) model.threshold.reset();  // it was chosen for one model
  const std::int64_t examples = session::examples_of((*model.data)->info(), model.split);
  const auto others = models_beside(model, world, options, how, log);
  const Index batch_size = how.batch_size > 0 ? how.batch_size : model.config.train.evaluation_batch_size;
  MeanPredictor predictor(model, others, world, batch_size);
  if (world.is_root()) {
    const SinkOptions to = sink_options(model, options, how, world.size());
    const auto sink = make_prediction_sink(to);
    collect(world, predictor, to, *sink);
  } else {
    for (BatchPredictions rows = predictor.next();; rows = predictor.next()) {
      send_rows(world, rows);
      if (rows.range[1] == 0) break;
    }
  }
  world.barrier();
  const std::string what = how.layer.empty() ? count_of(examples, "prediction")
                                             : fmt::format("{} of {}'s outputs", count_of(examples, "row"), how.layer);
  const std::string mean = others.empty() ? "" : fmt::format(" and {}", count_of(std::ssize(others), "other model"));
  const std::string threshold = threshold_text(model);
  log.info(fmt::format("{}: {} of {}{}, for {}; {}{}", how.output, what, model.checkpoint.path, mean, model.data_text(),
                       threshold.empty() ? "" : threshold + "; ", predictor.times()));
}

}  // namespace

void predict(comm::Communicator& world, const ApplyOptions& options, const PredictOptions& how, Log& log) {
  naming_input(options, [&] { predict_into_file(world, options, how, log); });
}

}  // namespace unisono::apply
