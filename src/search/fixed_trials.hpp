#pragma once

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "method_kind.hpp"
#include "trial_order.hpp"

namespace unisono::search {

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
