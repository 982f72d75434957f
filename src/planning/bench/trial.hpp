#pragma once

#include <cstdint>
#include <optional>

#include "bench/device_report.hpp"
#include "unisono/parallel/fault.hpp"
#include "unisono/session/abilities.hpp"
#include "unisono/session/model_parts.hpp"
#include "unisono/session/synthetic_source.hpp"
#include "unisono/session/training_parts.hpp"

namespace unisono::planning {

/// How long training steps took.
struct BenchTiming {
  std::int64_t steps = 0;
  double seconds = 0;                 ///< of the slowest rank
  double median_step_seconds = 0;     ///< of the slowest rank
  Seconds parts;                      ///< means over ranks
  CounterSet counters;                ///< of all ranks
  std::optional<DeviceSteps> device;  ///< what this rank's GPU did; nothing on the CPU
};

/// A model that is trained on random data. Its construction and its steps are collective.
class BenchTrial {
 public:
  /// \param ranks must outlive it
  BenchTrial(const session::PlacedRanks& ranks, const models::ModelInputs& inputs, Log& log);

  session::ModelParts& parts() { return parts_; }
  bool on_device() const { return parts_.backend->device() != nullptr; }
  /// Makes steps until libraries are loaded and, on a GPU, kernels are recorded. \return times of the last ones
  BenchTiming warm_up();
  BenchTiming run(std::int64_t steps);

 private:
  comm::Communicator& world_;
  const settings::Config& config_;
  session::NodePlace place_;
  session::ModelParts parts_;
  session::TrainingParts training_;
  session::SyntheticSource source_;
  parallel::Fault fault_;
  std::int64_t made_ = 0;
};

}  // namespace unisono::planning
