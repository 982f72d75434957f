#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "unisono/base/log.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/data/batch.hpp"
#include "unisono/models/factory.hpp"
#include "unisono/settings/config.hpp"

namespace unisono::planning {

/// The shapes of synthetic data, used instead of a data set.
struct SyntheticShape {
  data::FeatureShape features;
  Index classes = 0;     ///< 0: the features are the targets (autoencoder), or the next tokens
  Index vocabulary = 0;  ///< above 0: examples are windows of data.context tokens, of which there are so many
};

/// Parses "3x32x32" or "784". \throws ConfigError
data::FeatureShape parse_feature_shape(const std::string& text);

/// The arguments of `unisono bench`.
struct BenchOptions {
  std::int64_t steps = 0;              ///< steps to time; 0: as many as take about three seconds
  std::int64_t batch_per_rank = 0;     ///< examples of a rank in a step; 0: train.batch_size divided by the ranks
  std::optional<SyntheticShape> data;  ///< shapes of the data; empty: those of the config's set
  bool layers = false;                 ///< time each layer, too, and compare it with the device's roofline
  bool json = false;
};

/// Times training steps on random data in memory, with the config's strategy. Prints examples/s, GFLOP/s, the fraction
/// of the measured peak of all ranks together (of fused multiply-adds; on a device of matrix products), and where the
/// time went. Collective. \throws LaunchError if a rank has more threads than cores
void bench(comm::Communicator& world, const settings::Config& config, const BenchOptions& options, Log& log);

/// The inputs of a model: shapes of `data` if given, else of the config's set, without reading the set's examples.
/// \throws DataError if there is no such file, naming the options to give instead \throws ConfigError for tokens
/// without data.context
models::ModelInputs shapes_of(const settings::Config& config, const std::optional<SyntheticShape>& data);

/// The arguments of `unisono info`.
struct InfoOptions {
  std::optional<SyntheticShape> data;  ///< shapes used instead of the config's set
  bool json = false;
  std::optional<std::string> timeline = {};  ///< file for a drawing of a pipeline's step, as SVG
  bool overwrite = false;                    ///< whether to replace an earlier drawing
  bool roofline = false;                     ///< the least time of each layer on this CPU, too
};

/// Prints the table of layers, and predicts a rank's peak memory for training the config on the ranks of `world`; for a
/// pipeline, the peak memory of each stage, and how a step goes. Reads no examples, and trains nothing; but where the
/// config asks for GPUs, it makes a few steps on random data on them, and prints what the GPU was given. Collective.
void info(comm::Communicator& world, const settings::Config& config, const InfoOptions& options, Log& log);

/// The arguments of `unisono plan`.
struct PlanOptions {
  std::optional<SyntheticShape> data;  ///< shapes used instead of the config's set
  models::ModelKinds models = {};      ///< added kinds of models
  std::vector<int> hosts = {};         ///< numbers of hosts to predict for; empty: those that the command runs on
  double link_mbit = 0;                ///< a link between hosts that is not there; 0: as measured
  double link_microseconds = 0;        ///< of that link, for a short message; 0: 50
  std::string profile = {};            ///< a profile to use instead of measuring; empty: none
  std::string save_profile = {};       ///< where to write what was measured; empty: nowhere
  std::string write = {};              ///< where to write the recommended config; empty: nowhere
  std::string grade = {};              ///< the folder of a run that has ended, whose config it is; empty: none
  std::string noise = {};              ///< the folder of a run, whose config it is, at whose newest checkpoint the
                                       ///< gradient noise scale is measured; empty: none
  bool overwrite = false;              ///< whether files may be replaced
  bool json = false;
};

/// Predicts how fast ways of training a config's network would be on some hosts, from what it measures of the model's
/// kernels and of messages on the ranks of `world`, or from a profile. Prints them from the fastest to the slowest, and
/// recommends one. Reads no examples. With `grade`, the run's own way on its own ranks is predicted, and compared with
/// what its summary says, which is also written to the run's folder (prediction.json). Collective. \throws ConfigError
/// for models without gradients, and where hosts are asked for whose link is unknown
void plan(comm::Communicator& world, const settings::Config& config, const PlanOptions& options, Log& log);

/// The config with `[simulation]` as fast as a profile says that ranks and links are. What the profile does not know,
/// links of a single host, stays. \throws ConfigError for a profile of another model, or of another number of ranks on
/// a host \param overrides keys and values of the command line, which stay: "simulation.link_mbit=10"
settings::Config with_speeds_of(const std::string& profile, settings::Config config,
                                const std::vector<std::string>& overrides, Log& log);

}  // namespace unisono::planning
