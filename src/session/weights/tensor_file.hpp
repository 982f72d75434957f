#pragma once

#include <string>

#include "unisono/comm/communicator.hpp"
#include "unisono/data/safetensors.hpp"
#include "unisono/session/stored_checkpoint.hpp"
#include "weights/tensor_fit.hpp"

// Reading parameters from safetensors files.

namespace unisono::session {

/// Whether a path names a safetensors file, an index of such files (….safetensors.index.json), or a folder that holds
/// model.safetensors or its index and no checkpoints.
bool names_tensors(const std::string& path);

/// The tensors of a file or of all files of an index. One process reads them.
/// \param path as names_tensors takes it \throws CheckpointError
data::StoredTensors read_tensors(const std::string& path);

/// The tensors of a file on all ranks.
struct TensorFile {
  StoredFile file;
  data::StoredTensors tensors;
};
/// Rank 0 reads the headers for all ranks. Collective. \throws CheckpointError
TensorFile open_tensors(comm::Communicator& ranks, const std::string& path);

/// Sets this rank's part of a vector to a file's values, where the file has them. Collective. \throws CheckpointError;
/// OutputError if the vector is divided and not all ranks see the file
void read_tensors(comm::Communicator& ranks, const TensorFile& file, const TensorFit& fit, const StoredVector& vector);

/// Checks that embedding and unembedding are the same in the file, if they must be. One process reads them. \throws
/// ConfigError, CheckpointError
void require_same_head(const TensorFile& file, const TensorFit& fit);

}  // namespace unisono::session
