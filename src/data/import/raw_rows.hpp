#pragma once

#include <string>

#include "unisono/data/import.hpp"

namespace unisono::data {

/// Makes a set of a table's raw rows, all in the group `test`, for a model that was trained on such columns. Labels or
/// targets are kept where each row has one that the model knows.
/// \return why they are left out; empty where they are not, or where there is no such column
/// \throws DataError naming line, column and value of what the model does not know
std::string write_raw_table(const std::string& path, const Preprocessing& trained, const ImportOutput& output);

/// Makes a set of lines of LIBSVM, all in the group `test`, with the columns that a model was trained on. See
/// import_raw.
std::string write_raw_rows(const std::string& path, const RawForm& form, const ImportOutput& output);

}  // namespace unisono::data
