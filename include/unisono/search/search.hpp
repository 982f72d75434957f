#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "unisono/base/config.hpp"
#include "unisono/search/space.hpp"

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
  /// Number of trials; 0: all of the grid, or one pass over Hyperband's brackets; required for other methods.
  std::int64_t trials = 0;
  std::int64_t repeats = 1;     ///< trainings of each trial with seeds of their own; the mean counts
  bool cross_validate = false;  ///< whether each trial is trained on the folds of [cross_validation]
  std::int64_t ranks_per_trial = 1;
  std::int64_t threads_per_trial = 1;  ///< cores of each rank; a rank with more of them trains several trials at once
  /// What trials are compared by: "validation.accuracy"; auto: the validation accuracy where there is one, else the
  /// loss.
  std::string metric = "auto";
  ConfigValue space = {};
  std::vector<ConfigValue> baselines = {};  ///< trials given by hand, which come first
  KeptTrials keep = KeptTrials::best;
  bool refit = false;  ///< whether the best config is trained again, on training and validation examples together
  // halving, hyperband
  std::int64_t least_epochs = 1;      ///< epochs of the first rung, at least
  std::int64_t reduction_factor = 3;  ///< one in so many of a rung's trials goes on, for so many times the epochs
  // population
  std::int64_t exploit_every_epochs = 1;
  /// Share of the trials, the worst, that take over the weights of as many of the best.
  double exploited_fraction = 0.2;
  // tpe
  std::int64_t lookahead = 8;        ///< trial n knows the results of trials below n − lookahead
  std::int64_t startup_trials = 10;  ///< trials that know fewer results are drawn at random
  // stopping
  double stop_after_seconds = 0;  ///< seconds after which the search ends; 0: never
  double trial_seconds = 0;       ///< longer trials fail; 0: none do
  double target = 0;              ///< the value at which the search stops, if has_target
  bool has_target = false;        ///< whether the search stops when a trial reaches `target`
  bool median_rule = false;  ///< whether a trial stops that is worse than the median of the others at the same epoch

  void describe(ConfigVisitor& visitor);
};

/// A piece of training that a method asks for: of one trial, from where the trial is to so many epochs.
struct SearchStep {
  std::int64_t trial = 0;
  /// Epochs that the trial will have been trained for at the end of the step; 0: as its config says.
  std::int64_t epochs = 0;
  /// Population: the trial whose weights and optimizer the step begins with, as they were after as many epochs as
  /// `trial` has been trained for. That was the end of the latest step of `copied` that has ended; `copied` may be
  /// training on by now.
  std::optional<std::int64_t> copied = {};
  bool operator==(const SearchStep&) const = default;
};

/// Whether a method trains trials in several steps, each from where the previous step ended.
inline bool trains_in_steps(SearchKind kind) {
  return kind == SearchKind::halving || kind == SearchKind::hyperband || kind == SearchKind::population;
}

/// About how long the training of a trial at a point takes, in any unit. Empty: nobody knows.
using TrialWork = std::function<double(const Point&)>;

/// Decides which trials there are and how far each is trained. It never sees ranks, files or time: who calls it starts
/// steps, in any number at once, and reports how they ended. Called with the same steps and losses in the same order, a
/// new object comes to the same state, which is how a search is resumed. When a search is resumed, each step may be
/// started just before it is ended: only the order in which steps end matters.
class SearchMethod {
 public:
  virtual ~SearchMethod() = default;

  /// The next step that could start now, without starting it; nothing: no step can start before another one has ended.
  virtual std::optional<SearchStep> next() const = 0;
  /// Says that a step, which `next` gave (now or in an earlier run of the program), has started.
  virtual void started(const SearchStep& step) = 0;
  /// Says that a step has ended. \param loss lower is better; infinite where it failed
  virtual void ended(const SearchStep& step, double loss) = 0;
  /// Whether all steps have ended and there will be no others.
  virtual bool is_complete() const = 0;

  /// Where a trial that has started lies in the space; of a population, where it lies now.
  virtual Point point(std::int64_t trial) const = 0;
  /// How many trials there will be, as far as is known.
  virtual std::int64_t trials() const = 0;
  /// Whether which trials there are, or how far they are trained, depends on the order in which steps end.
  virtual bool depends_on_timing() const { return false; }
};

/// Makes the method that settings.method names.
/// \param seed the experiment's seed \param epochs epochs of a trial that is trained to the end (train.epochs)
/// \param work methods that know all of their trials in advance start the longest first
/// \throws ConfigError for settings that do not suit the space, and for the reasons that Space::grid and point_of have
std::unique_ptr<SearchMethod> make_search_method(const SearchSettings& settings, const Space& space, std::uint64_t seed,
                                                 std::int64_t epochs, TrialWork work = {});

}  // namespace unisono::search
