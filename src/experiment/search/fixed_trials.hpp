#pragma once

#include <functional>
#include <utility>

#include "search/method_kind.hpp"
#include "search/trial_order.hpp"

namespace unisono::experiment {

/// Trials that are trained to the end, and whose points do not depend on results: trial n is a function of n.
class FixedTrials final : public SearchMethod {
 public:
  FixedTrials(std::int64_t count, std::function<Point(std::int64_t trial)> point)
      : order_(count), point_(std::move(point)) {}

  std::optional<SearchStep> next() const override {
    return order_.all_started() ? std::nullopt : std::optional(SearchStep{.trial = order_.next()});
  }
  void started(const SearchStep& step) override { order_.start(step.trial); }
  void ended(const SearchStep& step, double loss) override { order_.end(step.trial, loss); }
  bool is_complete() const override { return order_.all_ended(); }
  Point point(std::int64_t trial) const override { return point_(trial); }
  std::int64_t trials() const override { return order_.count(); }

 private:
  TrialOrder order_;
  std::function<Point(std::int64_t)> point_;
};

}  // namespace unisono::experiment
