#include "unisono/session/evaluation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "unisono/base/errors.hpp"
#include "unisono/comm/gather.hpp"
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

}  // namespace

std::vector<models::Metric> evaluate_split(ModelParts& parts, data::Dataset& data, data::Split split,
                                           const settings::Config& config) {
  kernels::LossSums sums;
  comm::Communicator& replicas = parts.grid.data();
  const int portions = portions_of(config, replicas.size());
  const comm::Slice own = comm::slice_of(portions, replicas.rank(), replicas.size());
  for (Index portion = own.first; portion < own.last; ++portion) {
    const auto source =
        data.evaluate(split, static_cast<int>(portion), portions, config.train.evaluation_batch_size, parts.delivery());
    parts.replica->evaluate(*source, parts.state(), sums);
    if (config.communication.tree_leaves() > 0) sums.settle();
  }
  std::vector<models::Metric> metrics = parts.model->metrics(sum_over_ranks(parts.grid.all(), sums));
  if (is_undefined(config, *parts.model, data, split)) {
    for (models::Metric& metric : metrics) metric.value = std::numeric_limits<double>::quiet_NaN();
  }
  return metrics;
}

std::int64_t examples_of(const data::DatasetInfo& info, data::Split split) {
  if (split == data::Split::train) return info.train;
  return split == data::Split::validation ? info.validation : info.test;
}

data::Split watched_split(const data::DatasetInfo& info) {
  return info.validation > 0 ? data::Split::validation : data::Split::test;
}

kernels::LossSums sum_over_ranks(comm::Communicator& group, const kernels::LossSums& sums) {
  const std::size_t scores = sums.negative_scores.size() + sums.positive_scores.size();
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
                                static_cast<double>(scores)};
  group.allreduce_sum(std::span<double>(all));
  kernels::LossSums total{.loss = all[0],
                          .examples = static_cast<std::int64_t>(all[1]),
                          .correct = static_cast<std::int64_t>(all[2]),
                          .correct_top5 = static_cast<std::int64_t>(all[3]),
                          .squared_error = all[4],
                          .absolute_error = all[5],
                          .target_sum = all[6],
                          .target_squared_sum = all[7],
                          .values = static_cast<std::int64_t>(all[8])};
  total.settled = sums.settled;
  total.settled.resize(static_cast<std::size_t>(group.max(static_cast<std::int64_t>(sums.settled.size()))));
  comm::CommunicatorSquares(group).sum(total.settled);
  total.unsettle();
  if (all[9] == 0) return total;
  total.negative_scores = group.all_gather_joined(sums.negative_scores);
  total.positive_scores = group.all_gather_joined(sums.positive_scores);
  return total;
}

const models::Metric& decisive(const std::vector<models::Metric>& metrics) {
  const auto accuracy = std::find_if(metrics.begin(), metrics.end(),
                                     [](const models::Metric& metric) { return metric.name == "accuracy"; });
  return accuracy == metrics.end() ? metrics.front() : *accuracy;
}

bool is_better(const models::Metric& metric, double best) {
  return metric.larger_is_better ? metric.value > best : metric.value < best;
}

namespace {

/// Artificial sums in which nothing is missing, from which a model makes all its metrics.
kernels::LossSums full_sums(data::Split split, bool targets) {
  kernels::LossSums sums{.loss = 1, .examples = 2, .correct = 1, .correct_top5 = 1};
  if (targets) {
    sums.squared_error = sums.absolute_error = 1;
    sums.target_squared_sum = 2;
    sums.values = 2;
  }
  if (split != data::Split::train) sums.negative_scores = sums.positive_scores = {0};
  return sums;
}

/// Whether a model has targets, and no classes.
bool has_targets(const models::Model& model, data::Split split) {
  return model.metrics(full_sums(split, /*targets=*/false)).size() <= 1;
}

Criterion criterion_of(const std::string& key, const std::string& metric, data::Split split,
                       const models::Model& model) {
  const std::vector<models::Metric> possible = possible_metrics(model, split);
  if (metric == "auto") return {split, decisive(possible).name};
  std::string names;
  for (const models::Metric& known : possible) {
    if (known.name == metric) return {split, metric};
    names += (names.empty() ? "" : ", ") + known.name;
  }
  throw ConfigError(fmt::format("{}.metric = \"{}\": this model has no such metric on {}; it has {}", key, metric,
                                data::name_of(split), names));
}

void require_examples(const std::string& key, data::Split split, const settings::Config& config,
                      const data::DatasetInfo& data) {
  if (examples_of(data, split) > 0) return;
  throw ConfigError(
      fmt::format("{}.on = \"{}\": {} has no {} examples; {}choose another split", key, data::name_of(split),
                  config.data.path, data::name_of(split),
                  split == data::Split::validation ? "hold some back with data.validation_fraction = 0.1, or " : ""));
}

/// The best checkpoint, which early stopping restores, is by default chosen by early stopping's metric.
settings::BestSettings best_settings(const settings::Config& config) {
  const settings::BestSettings& best = config.checkpoint.best;
  const settings::EarlyStoppingSettings& stopping = config.train.early_stopping;
  const settings::BestSettings defaults;
  const bool is_set = best.metric != defaults.metric || best.on != defaults.on;
  return is_set || !stopping.is_on() ? best : settings::BestSettings{stopping.metric, stopping.on};
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
  return unseen.in_classes() == unseen.examples && !has_targets(model, split);
}

std::string unseen_text(const settings::Config& config, const models::Model& model, data::Dataset& data,
                        data::Split split, const std::vector<std::string>& class_names) {
  const data::Unseen unseen = data.unseen(split);
  std::string text;
  if (unseen.no_pairs) {
    text = fmt::format("no {} sentence has two or more words", data::name_of(split));
  } else if (data.info().kind == data::SetKind::ratings) {
    text = unseen_ratings_text(unseen, split);
  } else if (!unseen.classes.empty() && !has_targets(model, split)) {
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

std::vector<models::Metric> possible_metrics(const models::Model& model, data::Split split) {
  return model.metrics(full_sums(split, has_targets(model, split)));
}

std::vector<models::Metric> possible_metrics(const settings::Config& given, const data::DatasetInfo& data,
                                             data::Split split) {
  const settings::Config config = settle(given, data).config;
  return possible_metrics(ModelOfConfig(config, data).model(), split);
}

std::vector<std::string> metrics_of_differing_examples(const models::Model& model, data::Split split) {
  kernels::LossSums equal = full_sums(split, has_targets(model, split));
  equal.positive_scores.clear();
  equal.target_sum = 2;  // both targets are 1
  const std::vector<models::Metric> left = model.metrics(equal);
  std::vector<std::string> names;
  for (const models::Metric& metric : possible_metrics(model, split)) {
    const models::Metric* const found = find(&left, metric.name);
    if (found == nullptr || !std::isfinite(found->value)) names.push_back(metric.name);
  }
  return names;
}

Criteria criteria_of(const settings::Config& config, const models::Model& model, const data::DatasetInfo& data) {
  Criteria criteria;
  const settings::EarlyStoppingSettings& stopping = config.train.early_stopping;
  if (stopping.is_on()) {
    const data::Split split = stopping.on;
    require_examples("train.early_stopping", split, config, data);
    criteria.stopping = criterion_of("train.early_stopping", stopping.metric, split, model);
  }
  const settings::BestSettings best = best_settings(config);
  const data::Split split = best.on;
  const Criterion criterion =
      criterion_of("checkpoint.best", best.metric, split, model);  // checked even if it is not used
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
    best_by.criterion =
        Criterion{data::Split::validation, decisive(possible_metrics(model, data::Split::validation)).name}.text();
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
