#pragma once

#include <string>

#include "dense/schema.hpp"

namespace unisono::data {

/// A line for each column of a set with a recipe, and how a run encodes it.
std::string recipe_text(const hdf5::File& file, const SetSchema& set);

}  // namespace unisono::data
