#pragma once

#include <string>

#include "unisono/comm/communicator.hpp"
#include "unisono/data/tensors.hpp"
#include "unisono/session/stored_checkpoint.hpp"
#include "weights/tensor_fit.hpp"

// Reading parameters from files of tensors.

namespace unisono::session {

/// Whether a path names a file of tensors, also one that cannot be read (data::names_tensor_file), or a folder that
/// holds model.safetensors or its index and no checkpoints.
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
/// \param tensors of the file, by the names that the fit has for them
void read_tensors(comm::Communicator& ranks, const StoredFile& file, const data::StoredTensors& tensors,
                  const TensorFit& fit, const StoredVector& vector);

/// Checks that embedding and unembedding are the same in the file, if they must be. One process reads them.
/// \param path for messages \throws ConfigError, CheckpointError
void require_same_head(const std::string& path, const data::StoredTensors& tensors, const TensorFit& fit);

/// All numbers of a tensor. One process reads them. \throws CheckpointError
std::vector<float> numbers_of(const std::string& name, const data::StoredTensor& tensor);

}  // namespace unisono::session
