#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "unisono/base/random.hpp"
#include "unisono/search/method.hpp"

// What the file of a method declares of it, and what all of them are given.

namespace unisono::search {

/// What a method is made from.
struct SearchProblem {
  SearchSettings settings;
  Space space;
  std::vector<Point> baselines;  ///< trials 0 … b − 1
  std::uint64_t seed = 0;
  std::int64_t epochs = 0;  ///< of a trial that is trained to the end
  TrialWork work = {};

  std::int64_t first_drawn() const { return static_cast<std::int64_t>(baselines.size()); }
  bool is_baseline(std::int64_t trial) const { return trial < first_drawn(); }
};

/// One row of the table of methods (catalog.cpp).
struct SearchMethodKind {
  SearchKind kind;
  void (*describe)(ConfigVisitor& visitor, SearchSettings& settings);  ///< the keys that exist only for it
  std::unique_ptr<SearchMethod> (*make)(SearchProblem problem);        ///< \throws ConfigError
};
const std::vector<SearchMethodKind>& search_method_kinds();

/// Keys that several methods share.
void describe_trials(ConfigVisitor& visitor, SearchSettings& settings);
void describe_median_rule(ConfigVisitor& visitor, SearchSettings& settings);
void describe_rungs(ConfigVisitor& visitor, SearchSettings& settings);

/// What a stream of random numbers is drawn for.
enum class Draw : std::uint32_t { point, candidates, scrambling, exploit, explore };
RandomStream search_stream(const SearchProblem& problem, Draw draw, std::uint64_t a);

/// Uniform in [0, 1), a multiple of 2⁻⁵³.
double uniform(RandomStream& random);

/// A baseline, or a point at random: a function of the trial's number.
Point random_point(const SearchProblem& problem, std::int64_t trial);

}  // namespace unisono::search
