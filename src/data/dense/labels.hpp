#pragma once

#include <cstdint>
#include <vector>

#include "dense/schema.hpp"
#include "order/row_runs.hpp"

namespace unisono::data {

/// Reads the labels of some rows: any numbers in the file that are whole and in [0, 2³¹).
/// \throws DataError naming the first example whose label is not
void read_labels(const hdf5::File& file, const std::string& dataset, Range rows, std::int32_t* labels);

/// What to do about labels that are names: "holds text; …".
std::string text_labels_hint();

/// All labels of a group, for a split that gives each class the same share; empty where there are more classes than
/// such a split heeds.
std::vector<std::int32_t> read_strata(const hdf5::File& file, const std::string& dataset, std::int64_t examples);

/// How many of these rows have each label. \param classes above every label
std::vector<std::int64_t> count_labels(const hdf5::File& file, const std::string& dataset, const RowRuns& rows,
                                       std::int64_t classes);

/// The largest label of these rows.
std::int32_t largest_label(const hdf5::File& file, const std::string& dataset, Range rows);

/// How many classes a set has: what the file states, or else one more than the largest label of its training group.
/// \param largest by Split; -1 where there are no labels
/// \throws DataError where another label is larger than that allows
std::int64_t count_classes(const SetSchema& set, const std::array<std::int32_t, 3>& largest);

}  // namespace unisono::data
