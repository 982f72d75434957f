#pragma once

#include "unisono/data/hdf5.hpp"
#include "unisono/data/preprocessing.hpp"

namespace unisono::data {

/// A set's recipe, `/recipe`; empty where it has none. \throws DataError for one that is damaged
Recipe read_recipe(const hdf5::File& file);
/// As the bytes of its JSON. \throws OutputError
void write_recipe(hdf5::File& file, const Recipe& recipe);

}  // namespace unisono::data
