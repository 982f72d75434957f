#pragma once

#include <cstdint>
#include <string>
#include <vector>

// What folds are made from: something about each example of a file's group `train`, in its order. Read from the file,
// by this process alone.

namespace unisono::data {

/// How many examples there are: rows, ratings or sentences. \throws DataError
std::int64_t count_training_rows(const std::string& path);

/// Their class labels; empty if there are none. \throws DataError
std::vector<std::int32_t> read_training_labels(const std::string& path);

/// A column: the one-dimensional dataset /train/<name>, or else a column of a table's features that has this name.
/// Whole numbers are given as they are; texts, categories and fractions as the numbers of their different values in
/// ascending order.
/// \throws DataError if there is no such column, or if it has not one value for each example
std::vector<std::int64_t> read_training_column(const std::string& path, const std::string& name);

}  // namespace unisono::data
