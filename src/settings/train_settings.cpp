#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "unisono/base/errors.hpp"
#include "unisono/records/class_figures.hpp"
#include "unisono/settings/config.hpp"

namespace unisono::settings {
namespace {

constexpr Named<ClassWeights> kClassWeights[] = {
    {ClassWeights::none, "none", "all examples have the weight 1"},
    {ClassWeights::balanced, "balanced",
     "n / (K · n_k) for the n_k of n training examples that are of class k, of K classes: all classes have the same "
     "total weight"}};

constexpr Named<LastBatch> kLastBatches[] = {
    {LastBatch::join, "join",
     "joins the batch before where a batch_norm would otherwise have one value of a channel; else as keep"},
    {LastBatch::keep, "keep", "makes a smaller step"},
    {LastBatch::drop, "drop", "is left out: its examples are not trained on in this epoch. For tables"}};

void describe_batches(ConfigVisitor& visitor, TrainSettings& settings) {
  visitor.number_or(
      {.name = "batch_size",
       .meaning = "examples per optimizer step, over all ranks together. Models that are updated in place make a step "
                  "for each example; for them, the number of examples between two reports, averages or possible stops. "
                  "0: 64 for tables; otherwise a hundredth of an epoch, but at least 4096",
       .unit = "examples",
       .range = at_least(0).at_most(1 << 30)},
      settings.batch_size,
      {"largest", "as many as the ranks' memory allows (replica.placement.memory), for models of layers"});
  visitor.field({.name = "accumulate",
                 .meaning = "gradient accumulation: number of micro-batches that the batch of a step is divided into, "
                            "one after another; saves memory",
                 .range = at_least(1)},
                settings.accumulate);
  visitor.require("accumulate", settings.batch_size <= 0 || settings.accumulate <= settings.batch_size,
                  "accumulate is larger than batch_size, so some micro-batches would be empty; lower accumulate");
  visitor.number_or(
      {.name = "micro_batches",
       .meaning =
           "number of micro-batches that the batch of a step is divided into, in a fixed order; batch statistics "
           "are those of a micro-batch. With at least as many micro-batches as ranks, each rank takes whole, "
           "consecutive ones, so that the result does not depend on the number of ranks, up to rounding; with "
           "fewer, each is divided among the ranks. Not together with accumulate",
       .range = at_least(1)},
      settings.micro_batches,
      {"auto",
       "the fewest with which a step is at most 5 % longer than with any number, and fits into "
       "memory; for models of layers"});
  visitor.require("micro_batches", settings.batch_size <= 0 || settings.micro_batches <= settings.batch_size,
                  "micro_batches is larger than batch_size, so some micro-batches would be empty; lower it");
  visitor.require("micro_batches", settings.micro_batches == 1 || settings.accumulate == 1,
                  "accumulate and micro_batches both divide the batch of a step; remove one of them");
  visitor.choice({.name = "last_batch",
                  .meaning = "what becomes of an epoch's last batch where it has fewer examples than the others"},
                 settings.last_batch, kLastBatches);
}

/// Lengths in steps, where an epoch has several.
void describe_steps(ConfigVisitor& visitor, TrainSettings& settings) {
  visitor.field({.name = "steps",
                 .meaning = "length of the run in place of epochs, so that it may end within one, or be as long with "
                            "any number of examples. 0: epochs says how long it is",
                 .unit = "steps",
                 .range = at_least(0).at_most(optim::kMostSteps)},
                settings.steps);
  visitor.field({.name = "evaluate_every_steps",
                 .meaning = "steps between additional evaluations, besides those after epochs; 0: none",
                 .unit = "steps",
                 .range = at_least(0)},
                settings.evaluate_every_steps);
}

/// Of methods that take the whole set in each step.
void refuse_steps(ConfigVisitor& visitor) {
  constexpr std::string_view kWhy =
      "means nothing here: the optimizer uses the whole training set in every step; remove it";
  for (const std::string_view key : {"batch_size", "accumulate", "micro_batches", "last_batch"})
    visitor.refuse(key, kWhy);
  visitor.refuse("steps", "means nothing here: each epoch is a step; set train.epochs");
  visitor.refuse("evaluate_every_steps", "means nothing here: each epoch is a step; set train.evaluate_every_epochs");
}

/// What ends a run before its length is reached.
void describe_ends(ConfigVisitor& visitor, TrainSettings& settings) {
  visitor.field(
      {.name = "divergence",
       .meaning = "the run ends as diverged when its training loss stays above this multiple of its first loss for an "
                  "epoch, or is not finite; first losses below 0.1 count as 0.1. 0: only if it is not finite",
       .range = at_least(0)},
      settings.divergence);
  visitor.require("divergence", settings.divergence == 0 || settings.divergence > 1,
                  "divergence is a multiple of the first loss: set it above 1, or to 0");
  visitor.field({.name = "threshold_by",
                 .meaning = "two classes: the metric of the validation examples by which each evaluation chooses the "
                            "threshold from which on the second class is predicted: f1, f1_macro, balanced_accuracy "
                            "or accuracy. Checkpoints keep it, and evaluate and predict use it. Empty: the more "
                            "probable class is predicted"},
                settings.threshold_by);
  visitor.require(
      "threshold_by",
      settings.threshold_by.empty() ||
          std::ranges::find(records::kThresholdMetrics, settings.threshold_by) != std::end(records::kThresholdMetrics),
      "threshold_by must be f1, f1_macro, balanced_accuracy or accuracy");
  visitor.section({.name = "early_stopping", .meaning = "stops the run before its end, with the best weights"},
                  settings.early_stopping);
  visitor.require(
      "early_stopping",
      !settings.early_stopping.is_on() || settings.evaluate_every_epochs > 0 || settings.evaluate_every_steps > 0,
      "early_stopping needs evaluations during training, but evaluate_every_epochs = 0 makes none; set it "
      "to 1 or more, or evaluate_every_steps");
}

}  // namespace

void TrainSettings::describe(ConfigVisitor& visitor, bool whole_batch) {
  visitor.field({.name = "epochs",
                 .meaning = "passes over the training set; 0: none, so that the run only evaluates and keeps the "
                            "weights of train.initialise_from",
                 .range = at_least(0).at_most(1 << 30)},
                epochs);
  if (whole_batch) {
    refuse_steps(visitor);
  } else {
    describe_steps(visitor, *this);
    describe_batches(visitor, *this);
  }
  visitor.field({.name = "evaluate_every_epochs",
                 .meaning = "epochs between evaluations on the validation set (or the test set, if there is no "
                            "validation set); 0: only at the end",
                 .unit = "epochs",
                 .range = at_least(0)},
                evaluate_every_epochs);
  visitor.field({.name = "evaluation_batch_size",
                 .meaning = "batch size of a rank in evaluations and predictions",
                 .unit = "examples",
                 .range = at_least(1).at_most(1 << 20)},
                evaluation_batch_size);
  visitor.field({.name = "report_every_steps",
                 .meaning = "steps between two reports, each of which is a line of metrics.jsonl",
                 .unit = "steps",
                 .range = at_least(1)},
                report_every_steps);
  visitor.field(
      {.name = "threads",
       .meaning = "threads per rank; 0: the rank's equal share of the cores that it may run on, and of CPU quotas",
       .range = at_least(0).at_most(4096)},
      threads);
  describe_ends(visitor, *this);
  visitor.numbers_or({.name = "class_weights",
                      .meaning = "weight of an example's loss in training, by its class; a list has one weight per "
                                 "class",
                      .range = at_least(0)},
                     class_weight_list, class_weights, kClassWeights);
  weights.describe(visitor);
  visitor.require("epochs", trains() || !weights.initialise_from.empty(),
                  "epochs = 0 makes a run that does not train, but initialise_from names no weights for it; set "
                  "epochs to 1 or more, or initialise_from");
}

namespace {

constexpr Named<data::Split> kSplits[] = {
    {data::Split::validation, "validation", "the validation set"},
    {data::Split::test, "test", "the test set, which is then no longer an independent test of the result"},
    {data::Split::train, "train", "the mean over the training steps of the epoch"}};

void describe_criterion(ConfigVisitor& visitor, std::string& metric, data::Split& on) {
  visitor.field(
      {.name = "metric",
       .meaning = "metric that models are compared by, such as loss, accuracy, f1 or rmse; auto: accuracy where "
                  "the model has it, else loss"},
      metric);
  visitor.choice({.name = "on", .meaning = "examples that the metric is taken from"}, on, kSplits);
}

}  // namespace

void BestSettings::describe(ConfigVisitor& visitor) { describe_criterion(visitor, metric, on); }

void EarlyStoppingSettings::describe(ConfigVisitor& visitor) {
  describe_criterion(visitor, metric, on);
  visitor.field({.name = "patience",
                 .meaning = "the run stops after so many evaluations in a row without an improvement; see "
                            "train.evaluate_every_epochs and evaluate_every_steps. 0: it never stops early",
                 .unit = "evaluations",
                 .range = at_least(0).at_most(1 << 30)},
                patience);
  visitor.field({.name = "min_delta",
                 .meaning = "a metric has improved if it is better than the best value so far by more than this",
                 .range = at_least(0)},
                min_delta);
}

namespace {

constexpr Named<InitialiseBy> kInitialiseBy[] = {
    {InitialiseBy::names, "names", "by their names: those of this model, or of transformers"},
    {InitialiseBy::order, "order",
     "one after the other, as they are in the file, whatever they are called; each must have the shape that is next"}};

/// What is wrong with the rules for names; empty: nothing.
std::string problem_of_rules(const std::vector<std::string>& rules) {
  try {
    for (const std::string& rule : rules) parse_tensor_rule(rule);
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

void require_rules(ConfigVisitor& visitor, const WeightSettings& weights) {
  const std::string problem = problem_of_rules(weights.initialise_map);
  visitor.require("initialise_map", problem.empty(), problem);
  visitor.require("initialise_map", weights.initialise_map.empty() || !weights.initialise_from.empty(),
                  "initialise_map renames the tensors of a file, but initialise_from names none; set it, or remove "
                  "initialise_map");
}

std::string without_blanks(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t");
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

}  // namespace

TensorRule parse_tensor_rule(const std::string& text) {
  constexpr std::string_view kForm = "write 'NAME IN THE FILE = NAME HERE', such as 'conv1.* = convolution1.*'";
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) throw ConfigError(fmt::format("initialise_map: '{}' has no '='; {}", text, kForm));
  TensorRule rule{without_blanks(text.substr(0, equals)), without_blanks(text.substr(equals + 1))};
  if (rule.from.empty()) throw ConfigError(fmt::format("initialise_map: '{}' has no name before '='; {}", text, kForm));
  if (rule.to.find('=') != std::string::npos) {
    throw ConfigError(fmt::format("initialise_map: '{}' has more than one '='; make it several rules", text));
  }
  if (std::ranges::count(rule.to, '*') > std::ranges::count(rule.from, '*')) {
    throw ConfigError(
        fmt::format("initialise_map: '{}' has more * after '=' than before it, so nothing says what they stand for; {}",
                    text, kForm));
  }
  return rule;
}

void WeightSettings::describe(ConfigVisitor& visitor) {
  visitor.field({.name = "initialise_from",
                 .meaning = "a run's folder (its newest checkpoint), a checkpoint file or a file of weights "
                            "(safetensors, .npz, or what unisono export wrote), to start from: parameters whose names "
                            "and shapes agree with this model's are taken from there, the others get their initial "
                            "values; --resume does not read it again. Empty: initial values alone"},
                initialise_from);
  visitor.field({.name = "initialise_map",
                 .meaning = "what tensors of a file of weights are called in this model: [\"conv1.* = "
                            "convolution1.*\", \"head.* =\"]. * stands for any characters, which the * of the same "
                            "number on the right repeats; with nothing on the right, tensors are left out. The first "
                            "rule that fits a name counts"},
                initialise_map);
  require_rules(visitor, *this);
  visitor.choice({.name = "initialise_by", .meaning = "how the tensors of a file of weights find their place"},
                 initialise_by, kInitialiseBy);
  visitor.require("initialise_by", initialise_by == InitialiseBy::names || !initialise_from.empty(),
                  "initialise_by says how tensors of a file find their place, but initialise_from names none; set it, "
                  "or remove initialise_by");
  visitor.field({.name = "freeze",
                 .meaning = "parameters of a network that training does not change, by the names of parameters or of "
                            "their layers; * stands for any characters: [\"convolution*\", \"dense1.bias\"]. A "
                            "batch_norm layer that is frozen normalises by its running statistics, which stay as they "
                            "are, too"},
                freeze);
  visitor.field({.name = "weight_average",
                 .meaning = "decay of a moving average of the parameters, for instance 0.999, which is then evaluated, "
                            "judged and used by evaluate and predict instead of the parameters themselves; 0: none",
                 .range = at_least(0).below(1)},
                average);
}

void require_weights(ConfigVisitor& visitor, const WeightSettings& weights, const WeightTerms& terms) {
  visitor.require("train", weights.freeze.empty() || terms.model == "network",
                  fmt::format("train.freeze is for model.kind = \"network\", not for \"{}\"; remove it", terms.model));
  if (weights.average == 0) return;
  visitor.require("train", !terms.in_place,
                  fmt::format("train.weight_average: model.kind = \"{}\" is updated in place, example by example, so "
                              "there are no steps to average over; remove it",
                              terms.model));
  visitor.require("train", terms.has_one_model,
                  fmt::format("train.weight_average needs ranks that regularly hold the same model: use strategy.kind "
                              "= {}, not \"{}\", or remove it",
                              strategies::names_of_kinds(
                                  [](const strategies::StrategyTraits& traits) { return traits.has_one_model; }),
                              terms.strategy));
}

}  // namespace unisono::settings
