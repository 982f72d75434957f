#pragma once

#include <string>

#include "checkpoint/stored_checkpoint.hpp"
#include "unisono/data/dictionary.hpp"
#include "unisono/experiment/config.hpp"

// RUN/dictionary.h5: what the training set's words, or users and items, or classes, are called, so that a trained model
// can be asked by name without its set, and another set be held against it.

namespace unisono::experiment {

/// Whether the examples of such sets have numbers of words, or of users and items.
inline bool has_names(data::SetKind kind) { return kind != data::SetKind::table && kind != data::SetKind::sparse; }

/// Copies a set's names, where the file is not there yet. For rank 0. \return their hash, for CheckpointHeader::names
/// \throws DataError, OutputError
std::uint64_t keep_dictionary(const std::string& set, const std::string& file);

/// The hash of a set's names. For rank 0. \throws DataError
std::uint64_t names_of(const std::string& set);

/// The names that a checkpoint's run kept, in its folder or beside the checkpoint; else those of the set that it was
/// trained on. Names of another set are passed over. \throws DataError where neither is to be had
data::Dictionary dictionary_of(const StoredCheckpoint& checkpoint, const Config& config);

/// What a number stands for in a set must be what it stood for when the checkpoint's model was trained, as far as both
/// have names. \throws DataError
void require_same_names(const StoredCheckpoint& checkpoint, const Config& config, const std::string& set);

}  // namespace unisono::experiment
