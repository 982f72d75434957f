#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "unisono/base/open_file.hpp"

// Checkpoints on a local disk (checkpoint.local), until they are copied to the run's folder:
//   <local>/unisono-<uid>/checkpoints/<id>/<number>-step-<step>.h5, or <number>-best-step-<step>.h5
// The id is a random one, of one start of the run: what an earlier start has left is never taken for a checkpoint of a
// later one, which may have gone on from another step. As long as there may be checkpoints on a local disk alone, a
// note in the run's folder says where: checkpoints/local.txt. Nothing here is collective.
namespace unisono::session {

/// A whole checkpoint on a local disk.
struct LocalCheckpoint {
  std::string path = {};
  std::int64_t number = 0;  ///< of this start of the run, in the order in which they were written
  std::int64_t step = 0;
  bool best = false;  ///< whether it is to be best.h5, too
};

/// Where checkpoints are that may be on a local disk alone.
struct LocalNote {
  std::string host;    ///< of the disk
  std::string folder;  ///< absolute, with the id
};

/// A random id of a start of a run.
std::string new_id();
/// Whether a text has the form of an id.
bool is_id(const std::string& id);

/// Checks that checkpoints can be written to a local disk. \throws ConfigError
void require_local_disk(const std::string& local);

/// Makes a folder with an id of its own on a local disk. \return its absolute path \throws ConfigError
std::string make_local_folder(const std::string& local);

/// Locks a folder that make_local_folder has made, for whoever adds or removes checkpoints there. \return not open: it
/// is no such folder, or another run uses it
OpenFile lock_local_folder(const std::string& folder);

/// \return <folder>/<number>-…
LocalCheckpoint local_checkpoint(const std::string& folder, std::int64_t number, std::int64_t step, bool best);

/// The checkpoints of a folder of this user, in the order in which they were written; unfinished ones are removed.
std::vector<LocalCheckpoint> local_checkpoints_in(const std::string& folder);

/// The note in a run's folder of checkpoints, if there is a whole one.
std::optional<LocalNote> read_local_note(const std::string& checkpoints);
/// Whether there is a note that cannot be read.
bool has_damaged_note(const std::string& checkpoints);
/// \throws OutputError
void write_local_note(const std::string& checkpoints, const LocalNote& note);
/// Removes the local checkpoints that a run's folder has a note of, if their disk is here and no other run uses them,
/// and the note.
void forget_local_checkpoints(const std::string& checkpoints);
/// Removes a folder of local checkpoints, if it is one and nobody has locked it, with what unisono has written there.
void remove_local_folder(const std::string& folder);

}  // namespace unisono::session
