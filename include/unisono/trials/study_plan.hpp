#pragma once

#include <optional>
#include <string>
#include <vector>

#include "unisono/trials/ways.hpp"

namespace unisono::trials {

/// What a study does.
struct StudyPlan {
  std::string name, folder;
  settings::StudySettings settings = {};
  StudyMetric metric = {};
  std::vector<Way> ways = {};       ///< the serial run first
  std::optional<Way> optimum = {};  ///< trained with the first seed only
  std::string no_optimum = {};
  std::int64_t first_seed = 1;

  std::string run_folder(const Way& way, std::int64_t seed) const;
};

/// One training of a study.
struct StudyTraining {
  const Way* way;
  std::int64_t seed;
};

/// All of them, in the order in which they are made: seed by seed, so that changes of the machine's speed affect all
/// ways alike, and the serial run comes first.
std::vector<StudyTraining> trainings_of(const StudyPlan& plan);

}  // namespace unisono::trials
