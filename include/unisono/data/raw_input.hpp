#pragma once

#include <string>

#include "unisono/data/dataset.hpp"
#include "unisono/data/import.hpp"

namespace unisono::data {

/// What a model was trained on, for files in other formats than HDF5.
struct RawForm {
  SetKind kind = SetKind::table;
  FeatureShape features;  ///< of sparse rows: a channel for each column
  const Preprocessing& preprocessing;
};

/// Makes a set, all of it in the group `test`, of a file that a trained model is to be applied to: a table of CSV for
/// models of a set with columns; lines of LIBSVM for models of sparse rows; images of IDX, an array of NumPy (.npy)
/// with an example a row, or a folder of such files with an example each (in the order of their names) for models of
/// stored features. Labels and targets are kept where the model knows them all.
/// \return why labels or targets of the file are left out; empty where they are not, or where there are none
/// \throws DataError for a file that cannot be brought into the form that the model was trained on
std::string import_raw(const std::string& input, const RawForm& form, const ImportOutput& output);

/// A path for such a set, of this process alone. What a killed process leaves there, the next one that makes a set in
/// this folder removes.
std::string temporary_set(const std::string& folder);

/// A message in which such a path, of any process, is replaced by the name of the file that the set was made of.
std::string name_temporary_set(std::string message, const std::string& folder, const std::string& name);

}  // namespace unisono::data
