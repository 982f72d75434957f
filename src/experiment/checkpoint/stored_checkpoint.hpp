#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/held_vector.hpp"
#include "unisono/base/log.hpp"
#include "unisono/experiment/checkpoint.hpp"

namespace unisono::experiment {

/// A checkpoint that was found to be whole, by all ranks together: each hashed its share of the file's segments where
/// all see the file, else rank 0 all of them.
struct StoredCheckpoint {
  std::string path;
  bool seen_by_all = false;
  CheckpointHeader header;
  int optimizer_states = 0;  ///< see optimizer_states in checkpoint_file.hpp
};

/// Collective; on every rank alike. \throws DamagedCheckpoint, or CheckpointError for another version of the format
StoredCheckpoint open_checkpoint(comm::Communicator& world, const std::string& path);

/// The newest one of a folder that is whole, the best one last of all; damaged ones are named in a warning and passed
/// over. Collective. \param damaged on return what is wrong with these
std::optional<StoredCheckpoint> newest_whole(comm::Communicator& world, const std::string& folder, Log& log,
                                             std::vector<std::string>& damaged);

/// \throws CheckpointError where a path is neither a checkpoint nor a run's folder with one; what is in it is not read
void require_checkpoint(const std::string& path);

/// The one that a user means by the path of a run's folder (the newest whole one) or of a checkpoint. Collective.
/// \throws CheckpointError
StoredCheckpoint find_checkpoint(comm::Communicator& world, const std::string& path, Log& log);

/// Sets what this rank holds to the values of a group, or to the mean of several: each rank reads for itself, or
/// gets what rank 0 read where not all see the file. Collective.
/// \throws OutputError where ranks hold only parts and do not see the file
void read_vector(comm::Communicator& world, const StoredCheckpoint& stored, const std::vector<std::string>& groups,
                 const HeldVector& vector);

/// The paths of a folder's checkpoints, newest first, the best one at the end.
std::vector<std::string> checkpoints_in(const std::string& folder);

}  // namespace unisono::experiment
