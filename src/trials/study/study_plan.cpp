#include "unisono/trials/study_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace unisono::trials {

std::string StudyPlan::run_folder(const StudyTraining& training) const {
  return fmt::format("{}/runs/{}/seed-{}", folder, training.variant->folder, training.seed);
}

std::vector<StudyTraining> trainings_of(const StudyPlan& plan) {
  std::vector<StudyTraining> trainings;
  if (plan.optimum) trainings.push_back({&*plan.optimum, plan.first_seed});
  for (std::int64_t seed = plan.first_seed; seed < plan.first_seed + plan.settings.seeds; ++seed) {
    for (const Variant& variant : plan.variants) trainings.push_back({&variant, seed});
  }
  return trainings;
}

const StudyRecord* find_record(const std::vector<StudyRecord>& records, const StudyTraining& training) {
  const auto found = std::ranges::find_if(records, [&](const StudyRecord& record) {
    return record.variant == training.variant->identity && record.seed == training.seed;
  });
  return found == records.end() ? nullptr : &*found;
}

std::optional<records::TrialRun> StudyProgress::next() const {
  const auto missing = running_ || begins_no_more_ ? std::nullopt : first_missing();
  return missing ? std::optional(records::TrialRun{.trial = *missing}) : std::nullopt;
}

std::optional<std::int64_t> StudyProgress::first_missing() const {
  const auto found = std::ranges::find_if(
      trainings_, [&](const StudyTraining& training) { return find_record(records_, training) == nullptr; });
  return found == trainings_.end() ? std::nullopt : std::optional<std::int64_t>(found - trainings_.begin());
}

}  // namespace unisono::trials
