#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unisono/base/config.hpp"

namespace unisono::search {

enum class SearchKind { grid, random, sobol, halving, hyperband, population, tpe };

inline constexpr Named<SearchKind> kSearchKinds[] = {
    {SearchKind::grid, "grid", "every combination of values"},
    {SearchKind::random, "random", "points at random"},
    {SearchKind::sobol, "sobol", "points of a scrambled Sobol sequence, which cover the space more evenly"},
    {SearchKind::halving, "halving",
     "points at random, of which the better ones are trained for longer, as soon as they are known to be (ASHA)"},
    {SearchKind::hyperband, "hyperband", "brackets of halving that begin with trainings of different lengths"},
    {SearchKind::population, "population",
     "all trials train together; from time to time the worst take over weights and changed settings of the best"},
    {SearchKind::tpe, "tpe", "points where earlier good trials are denser than bad ones (Parzen estimators)"}};

/// What is kept of trials in their folders.
enum class KeptTrials { all, best, none };

inline constexpr Named<KeptTrials> kKeptTrials[] = {
    {KeptTrials::all, "all", "the run folder of every trial, with its checkpoints"},
    {KeptTrials::best, "best", "every run folder, but checkpoints only of the best trial and of those that go on"},
    {KeptTrials::none, "none",
     "nothing but the table: fastest for many short trials; what was running when a search stopped begins anew"}};

/// `[search]`
struct SearchSettings {
  SearchKind method = SearchKind::random;
  std::int64_t trials = 0;      ///< 0: the grid's, or one pass over Hyperband's brackets; required elsewhere
  std::int64_t repeats = 1;     ///< trainings of each trial with seeds of their own; the mean counts
  bool cross_validate = false;  ///< whether each trial is trained on the folds of [cross_validation]
  std::int64_t ranks_per_trial = 1;
  std::int64_t threads_per_trial = 1;  ///< cores of each rank; a rank with more of them trains several trials at once
  /// "validation.accuracy"; auto: the validation accuracy where there is one, else the loss
  std::string metric = "auto";
  ConfigValue space = {};
  std::vector<ConfigValue> baselines = {};  ///< trials given by hand, which come first
  KeptTrials keep = KeptTrials::best;
  bool refit = false;  ///< whether the best config is trained again, on training and validation examples together
  // halving, hyperband
  std::int64_t least_epochs = 1;      ///< of the first rung, at least
  std::int64_t reduction_factor = 3;  ///< 1/so many of a rung's trials go on, for so many times the epochs
  // population
  std::int64_t exploit_every_epochs = 1;
  double exploited_fraction = 0.2;  ///< worst trials that take over the weights of as many of the best
  // tpe
  std::int64_t lookahead = 8;        ///< trial n knows the results of trials below n − lookahead
  std::int64_t startup_trials = 10;  ///< trials that know fewer results are drawn at random
  // stopping
  double stop_after_seconds = 0;  ///< 0: never
  double trial_seconds = 0;       ///< longer trials fail; 0: none do
  double target = 0;              ///< see has_target
  bool has_target = false;        ///< stop when a trial reaches `target`
  bool median_rule = false;       ///< stop a trial that is worse than the median of the others at the same epoch

  void describe(ConfigVisitor& visitor);
};

}  // namespace unisono::search
