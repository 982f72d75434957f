#pragma once

#include "unisono/data/raw_input.hpp"

namespace unisono::data {

/// Makes a set of a NumPy array with an example a row, of a folder of arrays with an example each, or of IDX images.
void write_raw_array(const std::string& path, const RawForm& form, const ImportOutput& output);
void write_raw_folder(const std::string& folder, const RawForm& form, const ImportOutput& output);
void write_raw_idx(const std::string& path, const RawForm& form, const ImportOutput& output);

}  // namespace unisono::data
