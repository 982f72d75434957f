#include "unisono/search/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "method_kind.hpp"
#include "unisono/search/space.hpp"

namespace unisono::search {
namespace {

constexpr std::int64_t kMostTrials = 1'000'000;

void describe_method(ConfigVisitor& visitor, SearchSettings& settings) {
  std::vector<std::pair<SearchKind, std::function<void(ConfigVisitor&)>>> fields;
  for (const SearchMethodKind& kind : search_method_kinds()) {
    fields.emplace_back(kind.kind, [&](ConfigVisitor& inner) { kind.describe(inner, settings); });
  }
  visitor.variant({.name = "method", .meaning = "how trials are chosen"}, settings.method, kSearchKinds, fields);
}

void describe_size(ConfigVisitor& visitor, SearchSettings& settings) {
  visitor.field({.name = "repeats",
                 .meaning = "trainings of each trial, with seeds of their own; the mean of the metric counts",
                 .range = at_least(1).at_most(1000)},
                settings.repeats);
  visitor.require("repeats", settings.repeats == 1 || settings.method != SearchKind::population,
                  "the trials of a population take over weights of each other, so that there is no mean over repeats: "
                  "remove repeats, and compare searches with different seeds");
  visitor.field(
      {.name = "cross_validate",
       .meaning = "train each trial on the folds of [cross_validation]; the mean of the metric over them counts"},
      settings.cross_validate);
  visitor.require("cross_validate", !settings.cross_validate || settings.method != SearchKind::population,
                  "the trials of a population take over weights of each other, so that there is no mean over folds: "
                  "remove cross_validate, or choose another method");
  visitor.field({.name = "ranks_per_trial",
                 .meaning = "ranks that train a trial together",
                 .range = at_least(1).at_most(1 << 20)},
                settings.ranks_per_trial);
  visitor.field({.name = "threads_per_trial",
                 .meaning = "cores that a rank uses for a trial; a rank with more cores trains several trials at once",
                 .range = at_least(1).at_most(4096)},
                settings.threads_per_trial);
}

void describe_space(ConfigVisitor& visitor, SearchSettings& settings) {
  visitor.any_value({.name = "space",
                     .meaning = "the keys that vary, by their paths, and what each is drawn from: { linear = [0, 1] }, "
                                "{ log = [1e-4, 1] }, { integers = [16, 256], step = 16, log = true }, or a list of "
                                "choices, which may be whole tables with distributions in them",
                     .required = true},
                    settings.space);
  visitor.require("space", settings.space.table() != nullptr && !settings.space.table()->empty(),
                  "space must be a table with at least one key that varies: \"optimizer.learning_rate\" = { log = "
                  "[1e-4, 1] }");
  const ConfigValue::Table* const keys = settings.space.table();
  if (keys != nullptr && !keys->empty()) Space{settings.space};  // says what is wrong in it, also to `unisono train`
  ConfigValue baselines{.value = ConfigValue::Array(settings.baselines.begin(), settings.baselines.end())};
  visitor.any_value({.name = "baselines",
                     .meaning = "trials given by hand, which come first: tables of values for all keys of the space, "
                                "[{ \"optimizer.learning_rate\" = 0.1 }]"},
                    baselines);
  const bool tables = baselines.array() != nullptr &&
                      std::ranges::all_of(*baselines.array(), [](const ConfigValue& one) { return one.table(); });
  visitor.require("baselines", tables,
                  "baselines must be a list of tables, one for each trial: [{ \"optimizer.learning_rate\" = 0.1 }]");
  if (tables) settings.baselines = *baselines.array();
  const auto count = static_cast<std::int64_t>(settings.baselines.size());
  visitor.require("trials", settings.trials == 0 || settings.trials >= count,
                  fmt::format("trials = {} are fewer than the {} baselines, which are trials, too; raise trials",
                              settings.trials, count));
}

void describe_ends(ConfigVisitor& visitor, SearchSettings& settings) {
  visitor.field({.name = "stop_after_seconds",
                 .meaning = "no trial starts after so much time; what runs is finished. 0: no limit",
                 .unit = "seconds",
                 .range = at_least(0)},
                settings.stop_after_seconds);
  visitor.field({.name = "trial_seconds",
                 .meaning = "a trial that takes longer is stopped, and counts as failed. 0: no limit",
                 .unit = "seconds",
                 .range = at_least(0)},
                settings.trial_seconds);
  std::vector<double> target;
  if (settings.has_target) target = {settings.target};
  std::string word = "none";
  visitor.numbers_or({.name = "target", .meaning = "the search ends when a trial's metric is at least as good as this"},
                     target, word, {{"none", "no target"}});
  visitor.require("target", target.size() <= 1, "target must be one number, or \"none\"");
  settings.has_target = !target.empty();
  settings.target = target.empty() ? 0 : target[0];
}

}  // namespace

void describe_trials(ConfigVisitor& visitor, SearchSettings& settings) {
  visitor.field({.name = "trials",
                 .meaning = "number of trials, baselines included. With a larger number later, a search goes on",
                 .range = at_least(1).at_most(static_cast<double>(kMostTrials)),
                 .required = true},
                settings.trials);
}

void describe_median_rule(ConfigVisitor& visitor, SearchSettings& settings) {
  visitor.field(
      {.name = "median_rule", .meaning = "stop a trial that is worse than the median of the others at the same epoch"},
      settings.median_rule);
}

void SearchSettings::describe(ConfigVisitor& visitor) {
  describe_method(visitor, *this);
  describe_size(visitor, *this);
  visitor.field(
      {.name = "metric",
       .meaning =
           "what trials are compared by, such as validation.accuracy, validation.loss or validation.f1; auto: the "
           "accuracy where the model has it, else the loss, of the validation set"},
      metric);
  describe_space(visitor, *this);
  visitor.choice({.name = "keep", .meaning = "what is kept of trials in their folders"}, keep, kKeptTrials);
  visitor.field({.name = "refit",
                 .meaning = "train the best config once more at the end, on training and validation examples together"},
                refit);
  describe_ends(visitor, *this);
}

}  // namespace unisono::search
