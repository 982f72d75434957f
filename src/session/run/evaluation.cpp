#include "unisono/session/evaluation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "run/class_counts.hpp"
#include "run/label_counts.hpp"
#include "run/target_sums.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/comm/gather.hpp"
#include "unisono/records/metrics_log.hpp"
#include "unisono/session/method.hpp"
#include "unisono/session/settled.hpp"

namespace unisono::session {
namespace {

/// Into how many portions a split is divided; each is evaluated by one replica. Where sums are to be reproducible, this
/// does not depend on the number of replicas, so that batches and sums are the same ones everywhere.
int portions_of(const settings::Config& config, int replicas) {
  constexpr int kPortionsOfLeaf = 4;
  const int leaves = config.communication.tree_leaves();
  return leaves > 0 ? kPortionsOfLeaf * leaves : replicas;
}

/// The batches of a source until `stop` returns true.
class StoppableSource final : public data::EvaluationSource {
 public:
  StoppableSource(data::EvaluationSource& source, const std::function<bool()>& stop) : source_(source), stop_(stop) {}

  std::optional<data::Batch> next() override {
    stopped_ = stopped_ || (stop_ && stop_());
    return stopped_ ? std::nullopt : source_.next();
  }
  std::int64_t first() const override { return source_.first(); }
  std::int64_t last() const override { return source_.last(); }
  bool stopped() const { return stopped_; }

 private:
  data::EvaluationSource& source_;
  const std::function<bool()>& stop_;
  bool stopped_ = false;
};

/// The best checkpoint, which early stopping restores, is by default chosen by early stopping's metric.
settings::BestSettings best_settings(const settings::Config& config) {
  const settings::BestSettings& best = config.checkpoint.best;
  const settings::EarlyStoppingSettings& stopping = config.train.early_stopping;
  const settings::BestSettings defaults;
  const bool is_set = best.metric != defaults.metric || best.on != defaults.on;
  return is_set || !stopping.is_on() ? best : settings::BestSettings{stopping.metric, stopping.on};
}

constexpr Index kMostOfTwo = Index{1} << 26, kMostOfMore = Index{1} << 20;  ///< scores that are ranked unasked
constexpr Index kMostOfRank = Index{1} << 28;                               ///< scores that a rank keeps: 1 GiB

/// Scores by which the examples of a split are ranked.
Index scores_of(const records::ClassReading& reading, Index examples) {
  return examples * (reading.classes == 2 ? 1 : reading.classes);
}

/// Asked before each batch on each rank, whether the evaluation is given up; may be empty.
using Stop = std::function<bool()>;

/// Sums of losses over all ranks, and what `reader` is told of this rank's examples; nothing where it was stopped.
std::optional<kernels::LossSums> evaluate_with(ModelParts& parts, data::Dataset& data, data::Split split,
                                               const settings::Config& config, models::PredictionReader* reader,
                                               const Stop& stop) {
  const bool alone = parts.grid.shape().stages == 1 && parts.held.parameters->held_by_all();
  const Stop asked = alone ? stop : nullptr;
  bool stopped = false;
  kernels::LossSums sums;
  comm::Communicator& replicas = parts.grid.data();
  const int portions = portions_of(config, replicas.size());
  const comm::Slice own = comm::slice_of(portions, replicas.rank(), replicas.size());
  for (Index portion = own.first; portion < own.last && !stopped; ++portion) {
    const auto source =
        data.evaluate(split, static_cast<int>(portion), portions, config.train.evaluation_batch_size, parts.delivery());
    StoppableSource batches(*source, asked);
    parts.replica->evaluate(batches, parts.state(), sums, parts.counts_losses() ? reader : nullptr);
    stopped = batches.stopped();
    if (config.communication.tree_leaves() > 0) sums.settle();
  }
  if (!parts.counts_losses()) sums = {};
  if (asked && parts.grid.all().max(stopped ? 1 : 0) != 0) return std::nullopt;
  return sum_over_ranks(parts.grid.all(), sums);
}

/// Which classes no training example has; empty: none, or that is not known.
std::vector<bool> untrained_classes(data::Dataset& data, Index classes) {
  std::vector<bool> untrained = data.seen_classes();
  if (std::ranges::find(untrained, false) == untrained.end()) return {};
  untrained.flip();
  untrained.resize(static_cast<std::size_t>(classes));
  return untrained;
}

/// Whether each example has several numbers to predict, whose common R² would say little of each.
bool has_several_targets(const ModelParts& parts, const data::Dataset& data, data::Split split) {
  const bool labels = data.info().targets[static_cast<std::size_t>(split)].labels;
  return !labels && parts.model->prediction() == models::Prediction::values && data.info().target_size > 1 &&
         parts.model->output_size() == data.info().target_size;
}

/// How outputs are read: as classes, or as several labels; or, with neither, as values.
struct OutputReading {
  std::optional<records::ClassReading> classes = {};
  Index labels = 0;

  /// Scores by which `examples` of them are ranked.
  Index scores(Index examples) const { return classes ? scores_of(*classes, examples) : examples * labels; }
  bool is_of_two() const { return classes && classes->classes == 2; }
  std::vector<models::Metric> possible_metrics() const {
    if (classes) return records::possible_metrics(*classes);
    return labels > 0 ? records::possible_multilabel_metrics() : std::vector<models::Metric>{};
  }
};

bool fits_rank(const ModelParts& parts, const OutputReading& reading, Index examples) {
  return reading.scores(examples / parts.grid.data().size() + 1) <= kMostOfRank;
}

OutputReading output_reading(const models::Model& model, const data::DatasetInfo& data, data::Split split,
                             bool labels) {
  if (split == data::Split::train) return {};
  return {.classes = class_reading(model, labels), .labels = label_count(model, data)};
}

/// Nothing where it was stopped.
std::optional<SplitFigures> evaluate_counting(ModelParts& parts, data::Dataset& data, data::Split split,
                                              const settings::Config& config, const OutputReading& outputs,
                                              ClassCounts::Wish wish, const Stop& stop = {}) {
  const std::optional<records::ClassReading>& reading = outputs.classes;
  std::optional<ClassCounts> counts;
  if (reading) counts.emplace(*reading, wish);
  std::optional<LabelCounts> labels;
  if (outputs.labels > 0) labels.emplace(outputs.labels, wish.ranking, wish.curves);
  std::optional<TargetSums> targets;
  if (has_several_targets(parts, data, split)) targets.emplace(data.info().target_size);
  models::PredictionReader* reader = nullptr;
  if (counts) reader = &*counts;
  if (labels) reader = &*labels;
  if (targets) reader = &*targets;
  const auto sums = evaluate_with(parts, data, split, config, reader, stop);
  if (!sums) return std::nullopt;
  const bool undefined = sums->examples == 0 || is_undefined(config, *parts.model, data, split);
  SplitFigures all{.metrics = parts.model->metrics(*sums), .undefined = undefined};
  for (models::Metric& metric : all.metrics) {
    if (targets && metric.name == "r2") metric.value = targets->r2(parts.grid.all());
    if (undefined) metric.value = std::numeric_limits<double>::quiet_NaN();
  }
  if (labels) {
    all.labels = labels->figures(parts.grid.all(), config.data.path);
    const std::vector<models::Metric> more = records::metrics_of(*all.labels);
    all.metrics.insert(all.metrics.end(), more.begin(), more.end());
  }
  if (!counts) return all;
  if (wish.threshold) all.threshold = counts->threshold(parts.grid.all(), config.train.threshold_by);
  all.classes = counts->figures(parts.grid.all());
  if (!all.classes) return all;
  all.classes->set_untrained(untrained_classes(data, reading->classes));
  if (undefined) all.classes->calibration.reset();
  for (models::Metric& metric : all.metrics) {
    if (reading->threshold && metric.name == "accuracy" && !undefined) metric.value = all.classes->matrix.accuracy();
  }
  const std::vector<models::Metric> more = records::metrics_of(*all.classes);
  all.metrics.insert(all.metrics.end(), more.begin(), more.end());
  return all;
}

std::optional<SplitFigures> evaluate_wanted(ModelParts& parts, data::Dataset& data, data::Split split,
                                            const settings::Config& config, const std::vector<std::string>& more,
                                            const Stop& stop = {}) {
  std::vector<std::string> wanted = wanted_metrics(config, split);
  wanted.insert(wanted.end(), more.begin(), more.end());
  const bool labels = data.info().targets[static_cast<std::size_t>(split)].labels;
  const OutputReading reading = output_reading(*parts.model, data.info(), split, labels);
  const std::vector<models::Metric> possible = reading.possible_metrics();
  if (possible.empty()) return evaluate_counting(parts, data, split, config, reading, {}, stop);
  const Index examples = examples_of(data.info(), split);
  const auto wants = [&](bool (*kind)(std::string_view)) {
    return std::ranges::any_of(wanted, [&](const std::string& name) {
      const models::Metric* const metric = models::find_metric(possible, name);
      return metric != nullptr && kind(metric->name);
    });
  };
  const bool is_cheap = reading.scores(examples) <= (reading.is_of_two() ? kMostOfTwo : kMostOfMore);
  const bool ranking = is_cheap || (wants(records::ranks_examples) && fits_rank(parts, reading, examples));
  const bool threshold = split == data::Split::validation && !config.train.threshold_by.empty();
  auto all = evaluate_counting(parts, data, split, config, reading,
                               {.predictions = ranking || threshold || wants(records::needs_predictions),
                                .ranking = ranking,
                                .threshold = threshold},
                               stop);
  if (!all) return std::nullopt;
  for (models::Metric& metric : all->metrics) {
    const auto means_it = [&](const std::string& name) { return models::find_metric(all->metrics, name) == &metric; };
    metric.shown = metric.shown || std::ranges::any_of(wanted, means_it);
  }
  return all;
}

}  // namespace

std::vector<models::Metric> evaluate_split(ModelParts& parts, data::Dataset& data, data::Split split,
                                           const settings::Config& config, const std::vector<std::string>& wanted) {
  return evaluate_wanted(parts, data, split, config, wanted)->metrics;
}

std::optional<SplitFigures> evaluate_of_run(ModelParts& parts, data::Dataset& data, data::Split split,
                                            const settings::Config& config, const std::function<bool()>& stop) {
  return evaluate_wanted(parts, data, split, config, {}, stop);
}

std::vector<std::string> wanted_metrics(const settings::Config& config, data::Split split) {
  std::vector<std::string> names = config.metrics.show;
  const auto add = [&](const std::string& metric, data::Split on) {
    if (on == split && metric != "auto") names.push_back(records::split_and_metric(metric).second);
  };
  const settings::EarlyStoppingSettings& stopping = config.train.early_stopping;
  if (stopping.is_on()) add(stopping.metric, stopping.on);
  const settings::BestSettings best = best_settings(config);
  if (config.checkpoint.keep_best) add(best.metric, best.on);
  return names;
}

std::string metric_names(const std::vector<models::Metric>& metrics) {
  std::string names;
  for (const models::Metric& metric : metrics) names += (names.empty() ? "" : ", ") + metric.name;
  return names;
}

std::optional<records::ClassReading> class_reading(const models::Model& model, bool labels) {
  const models::Prediction prediction = model.prediction();
  if (!labels || prediction == models::Prediction::values) return std::nullopt;
  const Index outputs = model.output_size();
  return records::ClassReading{.classes = std::max<Index>(2, outputs),
                               .outputs = outputs,
                               .probabilities = prediction == models::Prediction::probabilities};
}

Index label_count(const models::Model& model, const data::DatasetInfo& data) {
  const bool are_labels = data.several_labels && data.target_size == model.output_size();
  return are_labels && model.prediction() == models::Prediction::probabilities ? data.target_size : 0;
}

SplitFigures evaluate_with_figures(ModelParts& parts, data::Dataset& data, data::Split split,
                                   const settings::Config& config, const std::optional<records::ClassReading>& reading,
                                   bool curves) {
  const OutputReading outputs{.classes = reading, .labels = label_count(*parts.model, data.info())};
  const bool ranking = fits_rank(parts, outputs, examples_of(data.info(), split));
  return *evaluate_counting(parts, data, split, config, outputs,
                            {.cells = true, .predictions = true, .ranking = ranking, .curves = curves});
}

std::int64_t examples_of(const data::DatasetInfo& info, data::Split split) {
  if (split == data::Split::train) return info.train;
  return split == data::Split::validation ? info.validation : info.test;
}

data::Split watched_split(const data::DatasetInfo& info) {
  return info.validation > 0 ? data::Split::validation : data::Split::test;
}

kernels::LossSums sum_over_ranks(comm::Communicator& group, const kernels::LossSums& sums) {
  // Counts below 2⁵³ are exact in a double.
  std::array<double, 10> all = {sums.loss,
                                static_cast<double>(sums.examples),
                                static_cast<double>(sums.correct),
                                static_cast<double>(sums.correct_top5),
                                sums.squared_error,
                                sums.absolute_error,
                                sums.target_sum,
                                sums.target_squared_sum,
                                static_cast<double>(sums.values),
                                static_cast<double>(sums.bytes)};
  group.allreduce_sum(std::span<double>(all));
  kernels::LossSums total{.loss = all[0],
                          .examples = static_cast<std::int64_t>(all[1]),
                          .correct = static_cast<std::int64_t>(all[2]),
                          .correct_top5 = static_cast<std::int64_t>(all[3]),
                          .squared_error = all[4],
                          .absolute_error = all[5],
                          .target_sum = all[6],
                          .target_squared_sum = all[7],
                          .values = static_cast<std::int64_t>(all[8]),
                          .bytes = static_cast<std::int64_t>(all[9])};
  total.settled = sums.settled;
  total.settled.resize(static_cast<std::size_t>(group.max(static_cast<std::int64_t>(sums.settled.size()))));
  comm::CommunicatorSquares(group).sum(total.settled);
  total.unsettle();
  return total;
}

const models::Metric& decisive(const std::vector<models::Metric>& metrics) {
  const auto named = [&](std::string_view name) { return std::ranges::find(metrics, name, &models::Metric::name); };
  const auto accuracy = named("accuracy");
  const bool predicts_tokens = named("perplexity") != metrics.end();
  return accuracy == metrics.end() || predicts_tokens ? metrics.front() : *accuracy;
}

bool is_better(const models::Metric& metric, double best) {
  return metric.larger_is_better ? metric.value > best : metric.value < best;
}

namespace {

/// Artificial sums in which nothing is missing, from which a model makes all metrics that follow from sums.
kernels::LossSums full_sums(bool targets) {
  kernels::LossSums sums{.loss = 1, .examples = 2, .correct = 1, .correct_top5 = 1, .bytes = 1};
  if (targets) {
    sums.squared_error = sums.absolute_error = 1;
    sums.target_squared_sum = 2;
    sums.values = 2;
  }
  return sums;
}

/// Whether a model has targets, and no classes.
bool has_targets(const models::Model& model) { return model.prediction() == models::Prediction::values; }

/// Where a config names a metric of a split.
struct NamedMetric {
  std::string key;  ///< "checkpoint.best"
  std::string metric;
  data::Split split;
};

Criterion criterion_of(const NamedMetric& named, const models::Model& model, const data::DatasetInfo& data) {
  const std::string &key = named.key, &metric = named.metric;
  const data::Split split = named.split;
  const std::vector<models::Metric> possible = possible_metrics(model, split, data);
  if (metric == "auto") return {split, decisive(possible).name};
  const auto refuse = [&](const std::string& why) {
    throw ConfigError(fmt::format("{}.metric = \"{}\": {}", key, metric, why));
  };
  const auto [of, name] = records::split_and_metric(metric);
  if (of && *of != split) {
    refuse(fmt::format("{}.on says {}; set {}.on = \"{}\"", key, data::name_of(split), key, data::name_of(*of)));
  }
  const models::Metric* const found = models::find_metric(possible, name);
  if (found == nullptr) {
    refuse(fmt::format("this model has no such metric on {}; it has {}", data::name_of(split), metric_names(possible)));
  }
  return {split, found->name};
}

/// Checks train.threshold_by. \throws ConfigError
void require_threshold(const settings::Config& config, const models::Model& model, const data::DatasetInfo& data) {
  const std::string& metric = config.train.threshold_by;
  if (metric.empty()) return;
  const std::string key = fmt::format("train.threshold_by = \"{}\"", metric);
  const auto reading = class_reading(model, data.classes > 0);
  if (!reading || reading->classes != 2) {
    throw ConfigError(key + ": only models that tell two classes apart have a threshold; remove it");
  }
  if (data.validation > 0) return;
  throw ConfigError(
      fmt::format("{}: {} has no validation examples, on which a threshold is chosen; hold some back with "
                  "data.validation_fraction = 0.1",
                  key, config.data.path));
}

void require_examples(const std::string& key, data::Split split, const settings::Config& config,
                      const data::DatasetInfo& data) {
  if (examples_of(data, split) > 0) return;
  throw ConfigError(
      fmt::format("{}.on = \"{}\": {} has no {} examples; {}choose another split", key, data::name_of(split),
                  config.data.path, data::name_of(split),
                  split == data::Split::validation ? "hold some back with data.validation_fraction = 0.1, or " : ""));
}

const models::Metric* find(const std::vector<models::Metric>* metrics, const std::string& name) {
  if (metrics == nullptr) return nullptr;
  const auto found =
      std::find_if(metrics->begin(), metrics->end(), [&](const models::Metric& metric) { return metric.name == name; });
  return found == metrics->end() ? nullptr : &*found;
}

/// Ratings for which the model has learnt nothing but their mean.
std::int64_t unknown_ratings(const settings::Config& config, const data::Unseen& unseen) {
  return config.model.factorization.biases ? unseen.both : unseen.users + unseen.items - unseen.both;
}

std::string unseen_ratings_text(const data::Unseen& unseen, data::Split split) {
  if (unseen.users + unseen.items == 0) return "";
  return fmt::format("of {} {} ratings, {} are of users without training ratings, {} of such items, {} of both",
                     grouped(unseen.examples), data::name_of(split), grouped(unseen.users), grouped(unseen.items),
                     grouped(unseen.both));
}

}  // namespace

bool is_undefined(const settings::Config& config, const models::Model& model, data::Dataset& data, data::Split split) {
  const data::Unseen unseen = data.unseen(split);
  if (unseen.examples == 0) return false;
  if (unseen.no_pairs) return true;
  if (data.info().kind == data::SetKind::ratings) return unknown_ratings(config, unseen) == unseen.examples;
  return unseen.in_classes() == unseen.examples && !has_targets(model);
}

std::string unseen_text(const settings::Config& config, const models::Model& model, data::Dataset& data,
                        data::Split split, const std::vector<std::string>& class_names) {
  const data::Unseen unseen = data.unseen(split);
  std::string text;
  if (unseen.no_pairs) {
    text = fmt::format("no {} sentence has two or more words", data::name_of(split));
  } else if (data.info().kind == data::SetKind::ratings) {
    text = unseen_ratings_text(unseen, split);
  } else if (!unseen.classes.empty() && !has_targets(model)) {
    text = unseen_classes_text(unseen, class_names, data.seen_classes(), data::name_of(split), "example");
  }
  if (text.empty()) return text;
  return text + (is_undefined(config, model, data, split) ? "; all metrics of this split are undefined"
                 : unseen.classes.empty()                 ? ""
                                                          : "; they count as wrong, and have no figures of their own");
}

nlohmann::ordered_json to_json(const data::Unseen& unseen) {
  nlohmann::ordered_json json = {{"examples", unseen.examples}};
  if (unseen.no_pairs) json["no_pairs"] = true;
  for (const auto& [label, examples] : unseen.classes)
    json["classes"].push_back({{"class", label}, {"examples", examples}});
  if (unseen.users + unseen.items > 0) {
    json["of_unknown_users"] = unseen.users;
    json["of_unknown_items"] = unseen.items;
    json["of_both"] = unseen.both;
  }
  return json;
}

std::vector<models::Metric> possible_metrics(const models::Model& model, data::Split split,
                                             const data::DatasetInfo& data) {
  std::vector<models::Metric> metrics = model.metrics(full_sums(has_targets(model)));
  const std::vector<models::Metric> more =
      output_reading(model, data, split, /*labels=*/data.classes > 0).possible_metrics();
  metrics.insert(metrics.end(), more.begin(), more.end());
  return metrics;
}

std::vector<models::Metric> possible_metrics(const settings::Config& given, const data::DatasetInfo& data,
                                             data::Split split) {
  const settings::Config config = settle(given, data).config;
  return possible_metrics(ModelOfConfig(config, data).model(), split, data);
}

std::vector<std::string> undefined_metrics(const models::Model& model, data::Split split, const data::DatasetInfo& data,
                                           const data::CommonAnswer& common) {
  kernels::LossSums equal = full_sums(has_targets(model));
  equal.target_sum = 2;  // both targets are 1
  const std::vector<models::Metric> left = model.metrics(equal);
  std::vector<std::string> names;
  for (const models::Metric& metric : model.metrics(full_sums(has_targets(model)))) {
    const models::Metric* const found = find(&left, metric.name);
    if (found == nullptr || !std::isfinite(found->value)) names.push_back(metric.name);
  }
  const OutputReading reading = output_reading(model, data, split, /*labels=*/data.classes > 0);
  if (reading.labels > 0) names.insert(names.end(), {"auc", "average_precision"});  // no two examples differ
  if (!reading.classes || !common.label) return names;
  const std::vector<std::string> more = records::undefined_metrics(*reading.classes, *common.label);
  names.insert(names.end(), more.begin(), more.end());
  return names;
}

Criteria criteria_of(const settings::Config& config, const models::Model& model, const data::DatasetInfo& data) {
  Criteria criteria;
  const settings::EarlyStoppingSettings& stopping = config.train.early_stopping;
  if (stopping.is_on()) {
    const data::Split split = stopping.on;
    require_examples("train.early_stopping", split, config, data);
    criteria.stopping = criterion_of({"train.early_stopping", stopping.metric, split}, model, data);
  }
  require_threshold(config, model, data);
  const settings::BestSettings best = best_settings(config);
  const data::Split split = best.on;
  // Checked even if it is not used.
  const Criterion criterion = criterion_of({"checkpoint.best", best.metric, split}, model, data);
  if (!config.checkpoint.keep_best) return criteria;
  if (split == data::Split::test || stopping.is_on()) require_examples("checkpoint.best", split, config, data);
  if (examples_of(data, split) > 0) criteria.best = criterion;
  return criteria;
}

std::string note_on_best(const settings::Config& config, const data::DatasetInfo& data) {
  const bool chosen = examples_of(data, best_settings(config).on) > 0;
  if (!config.checkpoint.keep_best || chosen) return "";
  return "there is no validation set, so no checkpoint is kept as the best one; data.validation_fraction = 0.1 holds "
         "examples back for it";
}

Selection::Selection(Criteria criteria, const settings::EarlyStoppingSettings& stopping, CheckpointHeader& header)
    : criteria_(std::move(criteria)), settings_(stopping), header_(header) {}

bool Selection::needs(data::Split split) const {
  const auto is_of = [split](const std::optional<Criterion>& criterion) {
    return criterion && criterion->split == split;
  };
  return is_of(criteria_.best) || is_of(criteria_.stopping);
}

bool Selection::judge(const MetricsOf& metrics_of) {
  undefined_.clear();
  const auto metric_of = [&](const Criterion& criterion) {
    const std::vector<models::Metric>* const metrics = metrics_of(criterion.split);
    const models::Metric* const found = find(metrics, criterion.metric);
    const models::Metric metric = found != nullptr ? *found : models::Metric{criterion.metric, std::nan("")};
    if (metrics != nullptr && !std::isfinite(metric.value) && undefined_.find(criterion.text()) == std::string::npos) {
      undefined_ += (undefined_.empty() ? "" : " and ") + criterion.text();
    }
    return metric;
  };
  if (criteria_.stopping) judge_stopping(metric_of(*criteria_.stopping));
  return criteria_.best && judge_best(metric_of(*criteria_.best));
}

/// A metric that is not finite (e.g. R² if all targets are equal) is never the best.
bool Selection::judge_best(const models::Metric& metric) {
  if (!std::isfinite(metric.value) || (header_.has_best && !is_better(metric, header_.best))) return false;
  header_.best = metric.value;
  header_.has_best = true;
  header_.best_by = {.criterion = criteria_.best->text(), .value = metric.value, .step = header_.step};
  return true;
}

void Selection::judge_stopping(const models::Metric& metric) {
  BestEvaluation& best = header_.stopping_by;
  const bool first = best.criterion.empty();
  const double needed = metric.larger_is_better ? best.value + settings_.min_delta : best.value - settings_.min_delta;
  if (std::isfinite(metric.value) && (first || is_better(metric, needed))) {
    best = {.criterion = criteria_.stopping->text(), .value = metric.value, .step = header_.step};
  } else if (!first) {
    ++best.waited;
  }
}

std::string keep_evaluations(const CheckpointHeader& stored, const Criteria& criteria, const models::Model& model,
                             CheckpointHeader& header) {
  BestEvaluation best_by = stored.best_by;
  if (stored.has_best && best_by.criterion.empty()) {  // older versions always used this criterion
    best_by.criterion = Criterion{data::Split::validation,
                                  decisive(possible_metrics(model, data::Split::validation, data::DatasetInfo{})).name}
                            .text();
  }
  std::string forgotten;
  const auto fits = [&](const BestEvaluation& before, const std::optional<Criterion>& now, const char* what) {
    if (now && before.criterion == now->text()) return true;
    if (now && !before.criterion.empty()) {
      forgotten += fmt::format("{}{} now uses {} instead of {}, so earlier evaluations do not count",
                               forgotten.empty() ? "" : "; ", what, now->text(), before.criterion);
    }
    return false;
  };
  if (fits(best_by, criteria.best, "the best checkpoint")) {
    header.best = stored.best;
    header.has_best = stored.has_best;
    header.best_by = best_by;
  }
  if (fits(stored.stopping_by, criteria.stopping, "early stopping")) header.stopping_by = stored.stopping_by;
  return forgotten;
}

}  // namespace unisono::session
