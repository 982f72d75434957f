#pragma once

#include <string>

#include "dense/plan.hpp"
#include "set/agreement.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/data/hdf5.hpp"

// The form of a set's examples as a model sees them: features after the recipe, and numbering of the classes.
namespace unisono::data {

/// Upper bound on the features into which a recipe's columns are encoded, whatever levels the training examples
/// contain.
Index most_features(const Recipe& recipe);

/// Sets the groups' feature shapes to an upper bound, from which the memory for the set is computed, and their targets
/// to the labels that a trained model predicts. \throws DataError where the model does not fit the set
void reserve_columns(SetSchema& schema, const Preprocessing* trained);

/// Maps a file's labels to a trained model's classes, by name: for each stored label the model's class, or −1 if it has
/// none of that name. Empty if one of the two has no names, or if both have the same.
std::vector<std::int32_t> classes_of(const std::vector<std::string>& trained, const std::vector<std::string>& stored);

/// Checks that a set has the same kind of table as the one that a model was trained on. \throws DataError saying what
/// is different and what to do
void require_form(const Preprocessing& trained, SetSchema& schema);

/// Decides how the set's examples are preprocessed: as for the trained model or, without one, as fitted on the set's
/// own training examples. Afterwards the groups have the features that a model sees, except for the normalisation.
/// Collective. \pre the examples are split \param trained null: there is no trained model
void settle_form(SetPlan& plan, const hdf5::File& file, const Preprocessing* trained, Agreement& agreement);

// The checksum of a set's file. A set made by this program ends in a seal, after HDF5's last byte: the hashes of the
// file's segments of 64 MiB (8 bytes each), a mark of 17 bytes, and the hash of these hashes. So a part of a large set
// can be checked alone. HDF5 ignores the seal when it reads, and truncates it when it opens the file for writing: a
// file changed by h5py has no seal.

/// Appends the seal to a file that is complete and closed. \throws OutputError
void seal_set(const std::string& path);

/// Called before HDF5 opens a set: compares up to 4 segments of a sealed file with their hashes (all of a file of up to
/// 256 MiB; else the first, the last, and two in between), divided among the node's ranks. A process checks an
/// unchanged file once. Does nothing for a file that has no seal or cannot be read. \throws DataError if the file was
/// changed
/// \param pattern a path, or the pattern of several files
void check_seal(const std::string& pattern, int node_rank = 0, int node_size = 1);

/// Opens a set with dense features. Collective; see open_dataset.
std::unique_ptr<Dataset> open_table(const DataSettings& settings, const NodeShare& share, const Preprocessing* trained);

/// The info of such a set, without reading it into memory.
DatasetInfo inspect_table(const DataSettings& settings, const hdf5::File& file);

/// Opens a set that is not a table; it is always resident, one copy per node. Collective; see open_dataset.
/// \param trained not null: the set is only evaluated with this trained model, and its examples keep the file's order
/// \throws DataError where the file cannot be brought into the form that the model was trained on
std::unique_ptr<Dataset> open_sparse_set(const DataSettings& settings, std::uint64_t seed, const NodeShare& share,
                                         const Preprocessing* trained);

/// The info of such a set, as far as it can be told without reading all values.
DatasetInfo inspect_sparse_set(const DataSettings& settings, const hdf5::File& file);

/// Opens a set of tokens. Collective; see open_dataset.
/// \param trained not null: the set is only evaluated with this trained model
/// \throws DataError where the set has another tokenizer than the one that the model was trained on
std::unique_ptr<Dataset> open_token_set(const DataSettings& settings, const NodeShare& share,
                                        const Preprocessing* trained);

/// The info of such a set, without reading its tokens.
DatasetInfo inspect_token_set(const DataSettings& settings, const hdf5::File& file);

}  // namespace unisono::data
