#pragma once

#include <memory>
#include <vector>

#include "unisono/trials/trial_plan.hpp"

namespace unisono::trials {

/// Several plans side by side, one for each outer fold: the trainings of plan i have `outer` = i.
class NestedPlan final : public Plan {
 public:
  explicit NestedPlan(std::vector<std::unique_ptr<TrialPlan>> plans) : plans_(std::move(plans)) {}

  std::optional<records::TrialRun> next() const override;
  void started(const records::TrialRun& training) override;
  void ended(const records::TrialRun& training, const records::TrialResult& result) override;
  bool is_complete() const override;
  void begin_no_more() override;
  void restart_unended() override;

  const TrialPlan& of(std::int64_t outer) const { return *plans_.at(static_cast<std::size_t>(outer)); }

 private:
  std::vector<std::unique_ptr<TrialPlan>> plans_;
};

}  // namespace unisono::trials
