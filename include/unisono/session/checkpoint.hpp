#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "unisono/base/errors.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/models/factory.hpp"

// A checkpoint is one HDF5 file, followed by a trailer that HDF5 does not see: "unisono-xxh3-64M:" and the hash over
// the hashes of all segments of 64 MiB before it. So any flipped byte and any truncation is found before HDF5 opens the
// file, and the ranks can divide the hashing. They also write it together: rank 0 creates it with room for all values,
// and each rank writes its rows of every dataset into place (docs/decisions/0004-parallel-checkpoints.md).
//
//   /parameters/<block>         float32, canonical shape, e.g. /parameters/convolution1.weight [20, 1, 5, 5]
//   /statistics/<block>         running statistics of batch normalisation
//   /average/parameters/<block>, /average/statistics/<block>   where weights are averaged (train.weight_average)
//   /optimizer/<r>/<vector>/<block>   r: 0, or each rank where ranks keep optimizer states of their own
//   /config                     uint8: the effective config's text
//   /header                     uint8: JSON of step, epoch, step in it, seed, … (see CheckpointHeader)
//
// Datasets are contiguous.

namespace unisono::session {

/// A file is truncated or damaged, or not a checkpoint at all.
struct DamagedCheckpoint : CheckpointError {
  using CheckpointError::CheckpointError;
};

/// A run's state for detecting divergence; see src/session/run/training_observer.hpp.
struct DivergenceState {
  bool has_first_loss = false;
  double first_loss = 0;
  std::int64_t below_until = 0;  ///< the last step at which the reported loss was not too large
};

/// The best evaluation so far, by one metric.
struct BestEvaluation {
  std::string criterion = {};  ///< "validation accuracy"; empty: none yet, or written by an older version
  double value = 0;
  std::int64_t step = 0;    ///< the step after which the evaluation was made
  std::int64_t waited = 0;  ///< number of evaluations since the best one
};

/// A key of the config that was changed on request when a run was resumed (--change).
struct ConfigChange {
  std::string key = {};
  std::string before = {}, after = {};  ///< as TOML; empty: the key did not exist
  std::int64_t step = 0;                ///< steps that were made before the change
};

/// The progress of a run, and from what it was started.
struct CheckpointHeader {
  std::int64_t step = 0;                        ///< steps made
  data::DataCursor cursor;                      ///< position of the next batch
  std::vector<std::int64_t> worker_steps = {};  ///< steps made by each worker, if they go at their own pace
  std::int64_t optimizer_steps = 0;
  std::vector<double> method = {};    ///< optim::BatchMethod::scalars
  std::vector<double> strategy = {};  ///< strategies::Strategy::scalars
  std::uint64_t seed = 0;
  std::string config;                 ///< the effective config, as TOML
  models::ModelInputs inputs;         ///< what the data determine of the model's inputs and outputs
  data::Preprocessing preprocessing;  ///< preprocessing of the training set's examples
  std::uint64_t data_identity = 0;
  bool resident = true;            ///< DatasetInfo::resident; a streamed set has another order of examples
  kernels::LossSums epoch_sums;    ///< training losses of the epoch up to reported_step, over all ranks
  std::int64_t reported_step = 0;  ///< the last step in metrics.jsonl
  std::vector<kernels::LossSums> unreported = {};  ///< training losses after reported_step, by rank
  double best = 0;                                 ///< value of the best evaluation so far, if has_best
  bool has_best = false;
  BestEvaluation best_by = {};      ///< step and metric of `best`
  BestEvaluation stopping_by = {};  ///< the best evaluation so far by the metric of early stopping
  DivergenceState divergence = {};
  bool averaged = false;  ///< whether the checkpoint also holds averaged weights, with which the model is then applied
  std::uint64_t names = 0;  ///< hash of the training set's names (words, users, items, classes); 0 if the set has none
  /// The threshold that train.threshold_by chose: the second of two classes is predicted where its output is at least
  /// this.
  std::optional<double> threshold = {};
  bool threads_chosen = false;  ///< whether strategy.threads in `config` was chosen when the run began
  bool evaluation_due = false;  ///< whether a signal ended the evaluation after `step`, so that it is to be made again
  std::vector<ConfigChange> changes = {};

  // What must be equal for a resumed run to give the same bits.
  int ranks = 1, threads = 1;
  std::string device;        ///< Backend::description and the CPU's name
  std::uint64_t build = 0;   ///< hash of the binary
  std::uint64_t layout = 0;  ///< ParameterLayout::hash
};

}  // namespace unisono::session
