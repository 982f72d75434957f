#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "unisono/base/log.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/data/batch.hpp"
#include "unisono/experiment/config.hpp"

namespace unisono::experiment {

/// What stands for a data set where there is none.
struct SyntheticShape {
  data::FeatureShape features;
  Index classes = 0;  ///< 0: the features are the targets
};

/// "3x32x32" or "784". \throws ConfigError
data::FeatureShape parse_feature_shape(const std::string& text);

struct BenchOptions {
  std::int64_t steps = 0;              ///< 0: some three seconds
  std::int64_t batch_per_rank = 0;     ///< 0: train.batch_size over the ranks
  std::optional<SyntheticShape> data;  ///< else the shapes of the config's set
  bool json = false;
};

/// Times training steps on random data in memory, with the config's strategy, and prints examples/s, GFLOP/s, the
/// fraction of the peak (multiplications and additions, of a device in matrices) that all ranks reach at once, and
/// where the time went. Collective. \throws LaunchError where a rank has more threads than cores
void bench(comm::Communicator& world, const Config& config, const BenchOptions& options, Log& log);

/// The shapes of the config's data, without reading it. \throws DataError where there is no such file: what to give
/// instead
models::ModelInputs shapes_of(const Config& config, const std::optional<SyntheticShape>& data);

}  // namespace unisono::experiment
