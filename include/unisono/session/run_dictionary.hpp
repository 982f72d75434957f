#pragma once

#include <string>

#include "unisono/data/dictionary.hpp"
#include "unisono/session/stored_checkpoint.hpp"
#include "unisono/settings/config.hpp"

// RUN/dictionary.h5: the names of the training set's words, users and items, or classes. With it a trained model can be
// queried by name without its set, and other sets can be checked for the same numbering.

namespace unisono::session {

/// Whether examples of such sets consist of numbers of words, or of users and items.
inline bool has_names(data::SetKind kind) { return kind != data::SetKind::table && kind != data::SetKind::sparse; }

/// Copies a set's names to the file, unless it exists. Called on rank 0. \return their hash, for
/// CheckpointHeader::names
/// \throws DataError, OutputError
std::uint64_t keep_dictionary(const std::string& set, const std::string& file);

/// The hash of a set's names. Called on rank 0. \throws DataError
std::uint64_t names_of(const std::string& set);

/// The names for a checkpoint: from dictionary.h5 in its run's folder or next to the checkpoint, else from the training
/// set. Names whose hash differs from the checkpoint's are not used. \throws DataError if there are none
data::Dictionary dictionary_of(const StoredCheckpoint& checkpoint, const settings::Config& config);

/// Checks that numbers have the same names in a set as in the set on which the checkpoint's model was trained, as far
/// as both have names. \throws DataError
void require_same_names(const StoredCheckpoint& checkpoint, const settings::Config& config, const std::string& set);

}  // namespace unisono::session
