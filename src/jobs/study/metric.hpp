#pragma once

#include <string>

#include "unisono/trials/ways.hpp"

namespace unisono::jobs {

/// \param wanted StudySettings::metric \throws ConfigError for a metric that the model or the set does not have;
/// DataError where there is no set
trials::StudyMetric metric_of(const settings::Config& config, const std::string& wanted);

}  // namespace unisono::jobs
