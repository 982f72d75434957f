#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unisono/base/errors.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/models/factory.hpp"

// A checkpoint is one HDF5 file, followed by a trailer that HDF5 does not see: "unisono-xxh3-64M:" and the hash over
// the hashes of all segments of 64 MiB before it. So any flipped byte and any truncation is found before HDF5 opens the
// file, and ranks can hash it together. They write it together, too: rank 0 makes it with room for all values, and each
// rank puts its rows of every dataset where they belong (docs/decisions/0004-parallel-checkpoints.md).
//
//   /parameters/<block>         float32, canonical shape, e.g. /parameters/convolution1.weight [20, 1, 5, 5]
//   /statistics/<block>         running statistics of batch normalisation
//   /average/parameters/<block>, /average/statistics/<block>   where weights are averaged (train.weight_average)
//   /optimizer/<r>/<vector>/<block>   r: 0, or each rank where ranks keep optimizer states of their own
//   /config                     uint8: the effective config's text
//   /header                     uint8: JSON of step, epoch, step in it, seed, … (see CheckpointHeader)
//
// Datasets are contiguous.

namespace unisono::experiment {

/// The file is not what was written: truncated, a byte flipped, or no checkpoint at all.
struct DamagedCheckpoint : CheckpointError {
  using CheckpointError::CheckpointError;
};

/// What a run remembers of its loss; see src/experiment/run/divergence.hpp.
struct DivergenceState {
  bool has_first_loss = false;
  double first_loss = 0;
  std::int64_t below_until = 0;  ///< the last step whose report was not too large
};

/// The best evaluation so far, by one metric.
struct BestEvaluation {
  std::string criterion = {};  ///< "validation accuracy"; empty: there is none yet, or an older unisono wrote it
  double value = 0;
  std::int64_t step = 0;    ///< after which it was made
  std::int64_t waited = 0;  ///< evaluations since then
};

/// Where a run stands, and where it came from.
struct CheckpointHeader {
  std::int64_t step = 0;                        ///< steps made
  data::DataCursor cursor;                      ///< of the next batch
  std::vector<std::int64_t> worker_steps = {};  ///< where workers go at their own pace: what each has made
  std::int64_t optimizer_steps = 0;
  std::uint64_t seed = 0;
  std::string config;                 ///< effective, TOML
  models::ModelInputs inputs;         ///< what the data said of the model's inputs and outputs
  data::Preprocessing preprocessing;  ///< how the training set's examples were read
  std::uint64_t data_identity = 0;
  bool resident = true;          ///< DatasetInfo::resident: streamed sets come in another order
  kernels::LossSums epoch_sums;  ///< training losses of the epoch so far, over all ranks, as far as they were reported
  std::int64_t reported_step = 0;     ///< up to which metrics.jsonl reports
  kernels::LossSums unreported = {};  ///< training losses since then, over all ranks
  double best = 0;                    ///< the best evaluation so far, where has_best
  bool has_best = false;
  BestEvaluation best_by = {};      ///< where and by what `best` was made
  BestEvaluation stopping_by = {};  ///< the same for early stopping
  DivergenceState divergence = {};
  bool averaged = false;    ///< it holds averaged weights, too: those that the model is applied with
  std::uint64_t names = 0;  ///< hash of the training set's names (words, users, items, classes); 0: it has none

  // What must be equal for a resumed run to be the same bit for bit
  int ranks = 1, threads = 1;
  std::string device;        ///< Backend::description and the CPU's name
  std::uint64_t build = 0;   ///< hash of the binary
  std::uint64_t layout = 0;  ///< ParameterLayout::hash
};

}  // namespace unisono::experiment
