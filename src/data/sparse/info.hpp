#pragma once

#include "sparse/schema.hpp"

namespace unisono::data {

/// The info of a set that is not a table, from its schema and some of its values. If the file does not state the
/// numbers of users and items, they are counted and set in the schema. \throws DataError
DatasetInfo sparse_info(const hdf5::File& file, SparseSchema& schema, const DataSettings& settings);

/// How often each word occurs; empty if the file does not say. \throws DataError
std::vector<std::int64_t> word_counts(const hdf5::File& file, const SparseSchema& schema);

}  // namespace unisono::data
