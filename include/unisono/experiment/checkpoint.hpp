#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unisono/base/errors.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/kernels/backend.hpp"
#include "unisono/models/factory.hpp"
#include "unisono/tensor/layout.hpp"

// A checkpoint is one HDF5 file, followed by a trailer that HDF5 does not see: "unisono-xxh3-64:" and the hash of all
// bytes before it. So any flipped byte and any truncation is found before HDF5 opens the file.
//
//   /parameters/<block>         float32, canonical shape, e.g. /parameters/convolution1.weight [20, 1, 5, 5]
//   /statistics/<block>         running statistics of batch normalisation
//   /optimizer/<r>/<vector>/<block>   r: 0, or each rank where ranks keep optimizer states of their own
//   /config                     uint8: the effective config's text
//   /header                     uint8: JSON of step, epoch, step in it, seed, … (see CheckpointHeader)

namespace unisono {

/// The file is not what was written: truncated, a byte flipped, or no checkpoint at all.
struct DamagedCheckpoint : CheckpointError {
  using CheckpointError::CheckpointError;
};

/// Where a run stands, and where it came from.
struct CheckpointHeader {
  std::int64_t step = 0;  ///< steps made
  DataCursor cursor;      ///< of the next batch
  std::int64_t optimizer_steps = 0;
  std::uint64_t seed = 0;
  std::string config;           ///< effective, TOML
  ModelInputs inputs;           ///< what the data said of the model's inputs and outputs
  Normalization normalization;  ///< of the training set
  std::uint64_t data_identity = 0;
  bool resident = true;  ///< DatasetInfo::resident: streamed sets come in another order
  LossSums epoch_sums;   ///< training losses of the epoch so far, over all ranks
  double best = 0;       ///< the best evaluation so far, where has_best
  bool has_best = false;

  // What must be equal for a resumed run to be the same bit for bit
  int ranks = 1, threads = 1;
  std::string device;        ///< Backend::description and the CPU's name
  std::uint64_t build = 0;   ///< hash of the binary
  std::uint64_t layout = 0;  ///< ParameterLayout::hash
};

/// Everything that a run needs to go on. Vectors are in the order of the layouts.
struct Checkpoint {
  CheckpointHeader header;
  std::vector<float> parameters;
  std::vector<float> statistics;
  /// optimizer[r][i]: vector i of rank r; one r where all ranks hold the same.
  std::vector<std::vector<std::vector<float>>> optimizer;
};

/// What orders and names a checkpoint's vectors.
struct CheckpointLayout {
  const ParameterLayout& parameters;
  const ParameterLayout& statistics;
  std::vector<std::string> optimizer;  ///< names of the optimizer's vectors
};

/// Writes aside (path + ".tmp"), syncs, and renames: a file called `path` is always whole.
/// \throws OutputError
void write_checkpoint(const std::string& path, const Checkpoint& checkpoint, const CheckpointLayout& layout);

/// \throws DamagedCheckpoint, or CheckpointError naming the block that another model has
Checkpoint read_checkpoint(const std::string& path, const CheckpointLayout& layout);
/// Without the vectors. \throws DamagedCheckpoint
CheckpointHeader read_checkpoint_header(const std::string& path);
/// θ and statistics alone, for evaluation. \throws as read_checkpoint
void read_model(const std::string& path, const CheckpointLayout& layout, ModelState state);

}  // namespace unisono
