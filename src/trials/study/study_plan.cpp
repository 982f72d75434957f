#include "unisono/trials/study_plan.hpp"

#include <fmt/format.h>

namespace unisono::trials {

std::string StudyPlan::run_folder(const Way& way, std::int64_t seed) const {
  return fmt::format("{}/runs/{}/seed-{}", folder, way.folder, seed);
}

std::vector<StudyTraining> trainings_of(const StudyPlan& plan) {
  std::vector<StudyTraining> trainings;
  if (plan.optimum) trainings.push_back({&*plan.optimum, plan.first_seed});
  for (std::int64_t seed = plan.first_seed; seed < plan.first_seed + plan.settings.seeds; ++seed) {
    for (const Way& way : plan.ways) trainings.push_back({&way, seed});
  }
  return trainings;
}

}  // namespace unisono::trials
