#pragma once

#include <optional>
#include <string>
#include <vector>

#include "unisono/base/log.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/session/checkpoint.hpp"
#include "unisono/session/stored_vector.hpp"

namespace unisono::session {

/// A checkpoint file whose hash was verified: each rank hashed its share of the file's segments if all ranks see the
/// file; otherwise rank 0 hashed all of them.
struct StoredCheckpoint {
  std::string path;
  bool seen_by_all = false;
  CheckpointHeader header;
  int optimizer_states = 0;  ///< see optimizer_states in checkpoint_file.hpp
};

/// Verifies a checkpoint and reads its header. Collective; all ranks return or throw the same. \throws
/// DamagedCheckpoint, or CheckpointError for another version of the format
StoredCheckpoint open_checkpoint(comm::Communicator& group, const std::string& path);

/// The newest undamaged checkpoint of a folder; best.h5 is tried last. Damaged ones are skipped with a warning.
/// Collective. \param damaged on return what is wrong with the damaged ones
std::optional<StoredCheckpoint> newest_whole(comm::Communicator& group, const std::string& folder, Log& log,
                                             std::vector<std::string>& damaged);

/// Checks that a path exists, and if it is a folder, that it is a run's with a checkpoint; does not read the file.
/// \throws CheckpointError if not
void require_checkpoint(const std::string& path);

/// The checkpoint that a user names by its path, or by its run's folder (the newest undamaged one). Collective.
/// \throws CheckpointError
StoredCheckpoint find_checkpoint(comm::Communicator& group, const std::string& path, Log& log);

/// Sets this rank's part of a vector to the values of a group, or to the mean of several groups. Each rank reads for
/// itself; if not all ranks see the file, rank 0 reads and broadcasts. Collective. \throws OutputError if the vector is
/// divided and not all ranks see the file
/// \param blocks whether to read each of the layout's blocks; empty: all
void read_vector(comm::Communicator& ranks, const StoredCheckpoint& stored, const std::vector<std::string>& groups,
                 const StoredVector& vector, const std::vector<bool>& blocks = {});

/// The paths of a folder's checkpoints, newest first, best.h5 last.
std::vector<std::string> checkpoints_in(const std::string& folder);

}  // namespace unisono::session
