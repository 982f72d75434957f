#pragma once

#include <string>
#include <vector>

#include "plan/profile.hpp"
#include "plan/ways.hpp"
#include "unisono/base/log.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/models/model.hpp"

namespace unisono::planning {

/// The config as one rank trains it by itself, in steps without parts.
settings::Config alone(settings::Config config);

/// What is measured of a model.
struct Measured {
  const settings::Config& config;
  const models::ModelInputs& inputs;
  const data::DatasetInfo& data;
  const models::Model& model;
  std::vector<Index> examples;  ///< of a rank in a step, in ascending order
  const std::vector<Way>& ways;
  std::int64_t memory_bytes = 0;  ///< of a rank that holds the whole model
};

/// The model of a profile in words.
std::string identity_of(const Measured& measured);

/// \param path of the profile \throws ConfigError where it is of another model
void require_same_model(const Profile& profile, const std::string& path, const Measured& measured);

/// Measures a profile on the ranks of `world`, in about a second for each number of examples and each encoder.
/// Collective; the root's result is whole. \throws LaunchError where hosts have different numbers of ranks
Profile measure_profile(comm::Communicator& world, const Measured& measured, Log& log);

}  // namespace unisono::planning
