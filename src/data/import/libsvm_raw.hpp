#pragma once

#include "unisono/data/raw_input.hpp"

namespace unisono::data {

/// Makes a set of lines of LIBSVM, all in the group `test`, with the columns that a model was trained on. See
/// import_raw.
std::string write_raw_rows(const std::string& path, const RawForm& form, const ImportOutput& output);

}  // namespace unisono::data
