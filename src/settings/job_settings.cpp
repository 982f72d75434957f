#include "unisono/settings/job_settings.hpp"

namespace unisono::settings {

void StudySettings::describe(ConfigVisitor& visitor) {
  visitor.field({.name = "seeds",
                 .meaning = "how many seeds the serial run and each variant are trained with: seed, seed + 1, …",
                 .range = at_least(2).at_most(10000)},
                seeds);
  visitor.field({.name = "margin",
                 .meaning = "difference of the metric that does not matter: a variant is equivalent if the interval of "
                            "its difference lies inside ± margin; 0: none is",
                 .range = at_least(0)},
                margin);
  visitor.field({.name = "metric",
                 .meaning = "by what variants are compared, as \"validation.accuracy\" or \"test.loss\"; auto: the "
                            "accuracy where there is one, otherwise the loss, of the validation set or, without one, "
                            "of the test set"},
                metric);
  visitor.numbers_or({.name = "target", .meaning = "value of the metric for the time to target"}, target, target_word,
                     {{"serial", "the mean of the serial runs, made worse by the margin"}});
  visitor.require("target", target.size() <= 1, "target is one number, or \"serial\"");
  visitor.field(
      {.name = "optimum",
       .meaning = "for linear models, also compute the minimum by L-BFGS, and say how far from it each variant "
                  "ends"},
      optimum);
  visitor.any_value(
      {.name = "variants",
       .meaning = "an array of tables, each of keys of this config with other values: { optimizer = { kind "
                  "= \"adam\", beta2 = 0.98 }, ranks = [2, 4] }. A table with a kind replaces the "
                  "config's; of one without, each key replaces the config's. ranks and threads: numbers "
                  "of ranks, and of threads of a rank, each of which is a variant; unset: keys that it "
                  "removes from the config, as [\"train.batch_size\"]; name: how it is called"},
      variants);
}

namespace {

void describe_folds(ConfigVisitor& visitor, std::int64_t& folds) {
  visitor.field({.name = "folds", .meaning = "how many folds there are", .range = at_least(2).at_most(1 << 20)}, folds);
}

void describe_stratified(ConfigVisitor& visitor, bool& stratified) {
  visitor.field({.name = "stratified",
                 .meaning = "keep each class's share of the examples in every fold, if the examples have class labels"},
                stratified);
}

void describe_most_fits(ConfigVisitor& visitor, std::int64_t& most_fits) {
  visitor.field({.name = "most_fits",
                 .meaning = "more folds than this are refused; raise it if you have the time for them",
                 .range = at_least(1)},
                most_fits);
}

}  // namespace

void CrossValidationSettings::describe(ConfigVisitor& visitor) {
  visitor.variant(
      {.name = "method", .meaning = "how the training examples are divided"}, method, kFoldMethods,
      {{FoldMethod::k_fold,
        [this](ConfigVisitor& inner) {
          describe_folds(inner, folds);
          describe_stratified(inner, stratified);
          inner.field(
              {.name = "shuffle", .meaning = "choose the examples of a fold at random; false: consecutive ones"},
              shuffle);
        }},
       {FoldMethod::repeated_k_fold,
        [this](ConfigVisitor& inner) {
          describe_folds(inner, folds);
          inner.field({.name = "repeats", .meaning = "how often", .range = at_least(1).at_most(1 << 20)}, repeats);
          describe_stratified(inner, stratified);
        }},
       {FoldMethod::leave_one_out, [this](ConfigVisitor& inner) { describe_most_fits(inner, most_fits); }},
       {FoldMethod::leave_p_out,
        [this](ConfigVisitor& inner) {
          inner.field({.name = "p", .meaning = "examples that are validated together", .range = at_least(1)}, p);
          describe_most_fits(inner, most_fits);
        }},
       {FoldMethod::group_k_fold,
        [this](ConfigVisitor& inner) {
          describe_folds(inner, folds);
          inner.field(
              {.name = "group",
               .meaning = "column of the groups: a data set of the file's group `train` (such as `groups`, which "
                          "unisono data import csv --group writes), or a column of its features by name"},
              group);
        }},
       {FoldMethod::shuffle_split,
        [this](ConfigVisitor& inner) {
          describe_folds(inner, folds);
          inner.field({.name = "held_out_fraction",
                       .meaning = "share of the examples that is drawn for validation",
                       .range = above(0).below(1)},
                      held_out_fraction);
          describe_stratified(inner, stratified);
        }},
       {FoldMethod::time_series,
        [this](ConfigVisitor& inner) {
          describe_folds(inner, folds);
          inner.field({.name = "time",
                       .meaning = "column by which examples are ordered, as for group_k_fold (such as `times`, which "
                                  "unisono data import csv --time writes); empty: the order of the file"},
                      time);
          inner.field({.name = "gap",
                       .meaning = "examples that are left out between training and validation",
                       .unit = "examples",
                       .range = at_least(0)},
                      gap);
        }},
       {FoldMethod::predefined, [this](ConfigVisitor& inner) {
          inner.field(
              {.name = "column",
               .meaning = "column of the folds' numbers or names, as for group_k_fold; examples with −1 are never "
                          "validated"},
              column);
        }}});
  visitor.field({.name = "split_seed",
                 .meaning = "seed of random folds. `seed` does not change it, so that runs with different seeds are "
                            "compared on the same folds",
                 .range = at_least(0)},
                split_seed);
  visitor.choice({.name = "solver", .meaning = "how the models of the folds are found"}, solver, kFoldSolvers);
  visitor.field(
      {.name = "nested",
       .meaning = "choose the settings of [search] within each fold, on its training examples alone; the fold "
                  "then measures the search, too"},
      nested);
  visitor.field({.name = "inner_folds",
                 .meaning = "nested: folds of a fold's training examples, by which trials are compared",
                 .range = at_least(2).at_most(1 << 20)},
                inner_folds);
  visitor.field({.name = "refit", .meaning = "train a model on all examples at the end"}, refit);
  visitor.require(
      "nested", !nested || !refit,
      "refit trains the config as it is on all examples, but nested searches choose settings for each fold: "
      "remove refit, and run unisono search with search.refit for a model of all examples");
  visitor.require("nested", !nested || solver == FoldSolver::automatic || solver == FoldSolver::train,
                  "nested trains its trials: remove solver");
  visitor.field(
      {.name = "ranks_per_fold", .meaning = "ranks that train a fold together", .range = at_least(1).at_most(1 << 20)},
      ranks_per_fold);
  visitor.field(
      {.name = "threads_per_fold",
       .meaning = "cores of each of these ranks; a rank with more cores trains several folds at the same time",
       .range = at_least(1).at_most(1 << 16)},
      threads_per_fold);
  visitor.choice({.name = "keep", .meaning = "what is kept of the folds' runs"}, keep, kKeptFolds);
}

namespace {

/// Calls act(field, section) for each section.
template <typename Act>
void for_each_section(Plans& plans, Act act) {
  act(Field{.name = "search", .meaning = "what `unisono search` tries"}, plans.search);
  act(Field{.name = "cross_validation", .meaning = "how `unisono cross-validate` divides the training examples"},
      plans.cross_validation);
  act(Field{.name = "study", .meaning = "variants that `unisono study` compares with the serial run"}, plans.study);
}

}  // namespace

void parse_sections(ConfigVisitor& parser, Plans& plans) {
  for_each_section(plans, [&parser](const Field& field, auto& section) {
    ConfigValue given;
    parser.any_value(field, given);
    if (given.table() != nullptr && given.table()->empty()) return;
    section.emplace();
    parser.section(field, *section);
  });
}

std::string effective_plans(const Plans& plans) {
  Plans copy = plans;  // `describe` is not const
  return unisono::effective_config([&copy](ConfigVisitor& writer) {
    for_each_section(copy, [&writer](const Field& field, auto& section) {
      if (section) writer.section(field, *section);
    });
  });
}

void describe_plans(ConfigVisitor& visitor) {
  Plans defaults;
  for_each_section(defaults, [&visitor](const Field& field, auto& section) {
    section.emplace();
    visitor.section(field, *section);
  });
}

}  // namespace unisono::settings
