#pragma once

#include <string>

#include "unisono/data/dataset.hpp"
#include "unisono/data/import.hpp"

namespace unisono::data {

/// The form of the data that a model was trained on, into which files in other formats than HDF5 are brought.
struct RawForm {
  SetKind kind = SetKind::table;
  FeatureShape features;  ///< sparse rows: one channel for each column
  const Preprocessing& preprocessing;
};

/// Converts a file to which a trained model is to be applied into a set whose only group is `test`. Formats: CSV for
/// models of tables with named columns; LIBSVM for models of sparse rows; for models of stored features IDX images, a
/// NumPy array (.npy) with an example in each row, or a folder of .npy files with one example each (in the order of
/// their names). Labels and targets are kept if the model knows all of them.
/// \return why the file's labels or targets were left out; empty if they were not, or if there are none
/// \throws DataError for a file that cannot be brought into the form that the model was trained on
std::string import_raw(const std::string& input, const RawForm& form, const ImportOutput& output);

/// A path in this folder for such a set, unique to this process. Making a set there also removes those that killed
/// processes have left in the folder.
std::string temporary_set(const std::string& folder);

/// Replaces such a path, of any process, in a message by `name`, the file from which the set was made.
std::string name_temporary_set(std::string message, const std::string& folder, const std::string& name);

}  // namespace unisono::data
