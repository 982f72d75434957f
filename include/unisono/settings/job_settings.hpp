#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "unisono/base/config.hpp"
#include "unisono/search/search.hpp"
#include "unisono/settings/config.hpp"

namespace unisono::settings {

/// `[study]`: the same experiment in many variants, each compared with the serial run.
struct StudySettings {
  std::int64_t seeds = 5;
  double margin = 0;            ///< difference of the metric below which variants are equivalent
  std::string metric = "auto";  ///< "validation.accuracy"; auto: the accuracy where there is one, else the loss
  std::vector<double> target;   ///< value of the metric for the time to target: one number; empty: target_word says
  std::string target_word = "serial";
  bool optimum = true;   ///< whether convex models are also compared with their minimum
  ConfigValue variants;  ///< an array of tables: keys of the config, and name, ranks, threads

  void describe(ConfigVisitor& visitor);
};

/// How examples are divided into folds.
enum class FoldMethod {
  k_fold,
  repeated_k_fold,
  leave_one_out,
  leave_p_out,
  group_k_fold,
  shuffle_split,
  time_series,
  predefined
};

inline constexpr Named<FoldMethod> kFoldMethods[] = {
    {FoldMethod::k_fold, "k_fold", "each example is in one of the folds, and each fold is validated once"},
    {FoldMethod::repeated_k_fold, "repeated_k_fold", "k_fold several times, each time with other folds"},
    {FoldMethod::leave_one_out, "leave_one_out", "each example is a fold of its own"},
    {FoldMethod::leave_p_out, "leave_p_out", "every choice of p examples is validated once"},
    {FoldMethod::group_k_fold, "group_k_fold",
     "k_fold, where examples of the same group are in the same fold; folds have about as many examples each"},
    {FoldMethod::shuffle_split, "shuffle_split", "examples for validation are drawn anew for each fold"},
    {FoldMethod::time_series, "time_series",
     "each fold is validated by the examples that follow in time after those that it is trained on"},
    {FoldMethod::predefined, "predefined", "a column of the training set says which fold an example is in"}};

/// How the models of the folds are found.
enum class FoldSolver { automatic, train, exact, exact_fits };

inline constexpr Named<FoldSolver> kFoldSolvers[] = {
    {FoldSolver::automatic, "auto", "exact for leave_one_out and leave_p_out where that is possible, otherwise train"},
    {FoldSolver::train, "train", "each is trained as the config says"},
    {FoldSolver::exact, "exact",
     "by normal equations, for linear models of tables with squared loss; leave_one_out and leave_p_out need only one "
     "fit"},
    {FoldSolver::exact_fits, "exact_fits", "by normal equations, with a fit for each fold"}};

inline constexpr Named<search::KeptTrials> kKeptFolds[] = {
    {search::KeptTrials::all, "all", "the run folder of every fold, with its checkpoints"},
    {search::KeptTrials::none, "none", "nothing but the tables and predictions; a fold that was running begins anew"}};

/// `[cross_validation]`
struct CrossValidationSettings {
  FoldMethod method = FoldMethod::k_fold;
  std::int64_t folds = 5;
  std::int64_t repeats = 10;       ///< repeated_k_fold
  bool stratified = true;          ///< whether each fold has the same share of each class, where there are classes
  bool shuffle = true;             ///< k_fold
  std::int64_t p = 2;              ///< leave_p_out
  std::int64_t most_fits = 10000;  ///< leave_one_out, leave_p_out
  std::string group = "groups";    ///< group_k_fold: a column
  double held_out_fraction = 0.1;  ///< shuffle_split
  std::string time = {};           ///< time_series: a column; empty: the order of the file
  std::int64_t gap = 0;            ///< time_series: examples left out between training and validation
  std::string column = "folds";    ///< predefined
  std::int64_t split_seed = 1;
  FoldSolver solver = FoldSolver::automatic;
  bool nested = false;           ///< whether [search] chooses the settings within each fold
  std::int64_t inner_folds = 5;  ///< nested: folds of a fold's training examples, by which trials are compared
  bool refit = false;            ///< whether a model is trained on all examples at the end
  std::int64_t ranks_per_fold = 1;
  std::int64_t threads_per_fold = 1;  ///< cores of each rank; a rank with more of them trains several folds at once
  search::KeptTrials keep = search::KeptTrials::none;

  void describe(ConfigVisitor& visitor);
};

/// Sections of a config file that are about many trainings; empty: the file does not have it. `unisono train` checks
/// and ignores them, and a run's config.toml does not have them.
struct Plans {
  std::optional<search::SearchSettings> search;
  std::optional<CrossValidationSettings> cross_validation;
  std::optional<StudySettings> study;
};

/// A config file with its plans.
struct PlannedConfig {
  Config config;
  Plans plans;
};

/// Reads a config file with its plans, and checks them. \throws ConfigError
PlannedConfig parse_plans(const ConfigText& text, const models::ModelKinds& models = {});
/// The plans' sections as TOML: every key in force.
std::string effective_plans(const Plans& plans);
/// Gives all keys of all plans to a visitor that describes them.
void describe_plans(ConfigVisitor& visitor);

/// Parses the sections that a config file has.
void parse_sections(ConfigVisitor& parser, Plans& plans);

}  // namespace unisono::settings
