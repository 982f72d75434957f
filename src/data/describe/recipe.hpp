#pragma once

#include <string>

#include "dense/schema.hpp"

namespace unisono::data {

/// A set's columns, one a line, and what a run makes of them.
std::string recipe_text(const hdf5::File& file, const SetSchema& set);

}  // namespace unisono::data
