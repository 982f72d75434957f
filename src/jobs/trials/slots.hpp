#pragma once

#include <cstdint>
#include <string_view>

#include "trials/dispatcher.hpp"
#include "unisono/session/job.hpp"
#include "unisono/settings/config.hpp"

namespace unisono::jobs {

class TrialJob;

/// The cores that a rank needs for a training: strategies whose threads share a model say themselves how many.
std::int64_t cores_of_training(const settings::Config& config, std::int64_t threads);

/// How the ranks of a job are divided for its trainings.
struct SlotShape {
  int ranks = 1;  ///< that make one training together
  int here = 1;   ///< trainings that this rank makes at the same time, where `ranks` is 1
};

/// \param ranks of one training, as `key` of the config says \param threads of each of its ranks \param device whether
/// they train on GPUs \throws ConfigError where the job's ranks cannot be divided so
SlotShape slot_shape(const session::Job& job, std::int64_t ranks, std::int64_t threads, bool device,
                     std::string_view key = "search.ranks_per_trial");

/// Warns where the threads of one training are more than a rank's share of the cores. \param key of the config
void warn_if_crowded(session::Job& job, std::int64_t threads, std::string_view key);

/// Makes all trainings that rank 0 hands out, on all ranks of the job, and returns when it hands out no more.
/// Collective over the job. \param dispatcher rank 0's; null elsewhere
void make_trial_runs(session::Job& job, TrialJob& trials, Dispatcher* dispatcher);

}  // namespace unisono::jobs
