#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "unisono/base/random.hpp"
#include "unisono/search/search.hpp"

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

/// Which trials have started and ended, each once. Those that start in the order of their numbers ask for `next`.
class TrialOrder {
 public:
  explicit TrialOrder(std::int64_t count) : count_(count) {}

  std::int64_t count() const { return count_; }
  /// The lowest number of those that have not started; `count` where all have.
  std::int64_t next() const { return next_; }
  /// The lowest number of those that have not ended.
  std::int64_t first_open() const { return first_open_; }
  bool has_started(std::int64_t trial) const { return losses_.contains(trial); }
  bool all_started() const { return next_ == count_; }
  bool all_ended() const { return first_open_ == count_; }
  /// Of a trial that has ended.
  double loss(std::int64_t trial) const { return *losses_.at(trial); }

  void start(std::int64_t trial) {
    losses_.try_emplace(trial);
    while (next_ < count_ && losses_.contains(next_)) ++next_;
  }
  void end(std::int64_t trial, double loss) {
    losses_[trial] = loss;
    for (auto at = losses_.find(first_open_); at != losses_.end() && at->first == first_open_ && at->second; ++at) {
      ++first_open_;
    }
  }

 private:
  std::int64_t count_, next_ = 0, first_open_ = 0;
  std::map<std::int64_t, std::optional<double>> losses_;  ///< of those that have started
};

/// Trials that are trained to the end, and whose points do not depend on results: trial n is a function of n. They
/// start in the order of their numbers, or after the baselines the longest first: then no core is left with a long
/// trial when all others have ended.
class FixedTrials final : public SearchMethod {
 public:
  FixedTrials(const SearchProblem& problem, std::int64_t count, std::function<Point(std::int64_t trial)> point)
      : order_(count), point_(std::move(point)), baselines_(problem.first_drawn()), work_(problem.work) {}

  std::optional<SearchStep> next() const override {
    if (order_.all_started()) return std::nullopt;
    if (!work_ || order_.next() < baselines_) return SearchStep{.trial = order_.next()};
    if (longest_first_.empty()) sort_by_work();
    while (order_.has_started(longest_first_.back())) longest_first_.pop_back();
    return SearchStep{.trial = longest_first_.back()};
  }
  void started(const SearchStep& step) override { order_.start(step.trial); }
  void ended(const SearchStep& step, double loss) override { order_.end(step.trial, loss); }
  bool is_complete() const override { return order_.all_ended(); }
  Point point(std::int64_t trial) const override { return point_(trial); }
  std::int64_t trials() const override { return order_.count(); }

 private:
  void sort_by_work() const {
    std::vector<std::pair<double, std::int64_t>> trials;
    for (std::int64_t trial = baselines_; trial < order_.count(); ++trial) {
      trials.emplace_back(work_(point_(trial)), -trial);  // of equally long ones the first number starts first
    }
    std::ranges::sort(trials);
    for (const auto& [work, negative] : trials) longest_first_.push_back(-negative);
  }

  TrialOrder order_;
  std::function<Point(std::int64_t)> point_;
  std::int64_t baselines_;
  TrialWork work_;
  mutable std::vector<std::int64_t> longest_first_;  ///< that have not started, from the end; made when it is needed
};

}  // namespace unisono::search
