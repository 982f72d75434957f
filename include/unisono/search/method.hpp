#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "unisono/search/search_settings.hpp"
#include "unisono/search/space.hpp"

namespace unisono::search {

/// A piece of training that a method asks for: of one trial, from where it is to so many epochs.
struct SearchStep {
  std::int64_t trial = 0;
  std::int64_t epochs = 0;  ///< that the trial will have been trained for at its end; 0: as its config says
  /// Population: it begins with this trial's weights and optimizer, as they were when that one had been trained for as
  /// many epochs as this one has now. That was the end of its latest ended step; it may be training on by now.
  std::optional<std::int64_t> copied = {};
  bool operator==(const SearchStep&) const = default;
};

/// Whether a method trains trials in several steps, each from where the one before ended.
inline bool trains_in_steps(SearchKind kind) {
  return kind == SearchKind::halving || kind == SearchKind::hyperband || kind == SearchKind::population;
}

/// About how long the training of a trial at a point takes, in any unit. Empty: nobody knows.
using TrialWork = std::function<double(const Point&)>;

/// Decides which trials there are and how far each is trained. It never sees ranks, files or time: who calls it starts
/// steps, in any number at once, and reports how they ended. Called with the same steps and losses in the same order, a
/// new object comes to the same state, which is how a search is resumed. There, each step may be started just before it
/// is ended: only the order in which steps end matters.
class SearchMethod {
 public:
  virtual ~SearchMethod() = default;

  /// The next step that could start now, without starting it; nothing: none can before another one has ended.
  virtual std::optional<SearchStep> next() const = 0;
  /// This step, which `next` gave (now or in an earlier run of the program), has started.
  virtual void started(const SearchStep& step) = 0;
  /// It has ended. \param loss lower is better; infinite where it failed
  virtual void ended(const SearchStep& step, double loss) = 0;
  /// Whether all steps have ended and there will be no others.
  virtual bool is_complete() const = 0;

  /// Where a trial that has started lies in the space; of a population, where it lies now.
  virtual Point point(std::int64_t trial) const = 0;
  /// How many trials there will be, as far as that is known.
  virtual std::int64_t trials() const = 0;
  /// Whether which trials there are, or how far they are trained, depends on the order in which steps end.
  virtual bool depends_on_timing() const { return false; }
};

/// \param seed of the experiment \param epochs of a trial that is trained to the end (train.epochs)
/// \param work methods that know all of their trials in advance start the longest first
/// \throws ConfigError for settings that do not suit the space, and for the reasons that Space::grid and point_of have
std::unique_ptr<SearchMethod> make_search_method(const SearchSettings& settings, const Space& space, std::uint64_t seed,
                                                 std::int64_t epochs, TrialWork work = {});

}  // namespace unisono::search
