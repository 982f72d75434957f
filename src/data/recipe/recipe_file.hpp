#pragma once

#include "unisono/data/hdf5.hpp"
#include "unisono/data/preprocessing.hpp"

namespace unisono::data {

/// Reads a set's recipe, the dataset `/recipe`; empty if it has none. \throws DataError if it is damaged
Recipe read_recipe(const hdf5::File& file);
/// Writes it as the bytes of its JSON. \throws OutputError
void write_recipe(hdf5::File& file, const Recipe& recipe);

}  // namespace unisono::data
