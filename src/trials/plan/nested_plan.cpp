#include "unisono/trials/nested_plan.hpp"

#include <algorithm>

namespace unisono::trials {
namespace {

records::TrialRun within(records::TrialRun training) {
  training.outer = -1;
  return training;
}

}  // namespace

std::optional<records::TrialRun> NestedPlan::next() const {
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    auto training = plans_[i]->next();
    if (!training) continue;
    training->outer = static_cast<std::int64_t>(i);
    return training;
  }
  return std::nullopt;
}

void NestedPlan::started(const records::TrialRun& training) {
  plans_.at(static_cast<std::size_t>(training.outer))->started(within(training));
}

void NestedPlan::ended(const records::TrialRun& training, const records::TrialResult& result) {
  plans_.at(static_cast<std::size_t>(training.outer))->ended(within(training), result);
}

bool NestedPlan::is_complete() const {
  return std::ranges::all_of(plans_, [](const auto& plan) { return plan->is_complete(); });
}

void NestedPlan::begin_no_more() {
  for (const auto& plan : plans_) plan->begin_no_more();
}

void NestedPlan::restart_unended() {
  for (const auto& plan : plans_) plan->restart_unended();
}

}  // namespace unisono::trials
