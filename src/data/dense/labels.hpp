#pragma once

#include <cstdint>
#include <vector>

#include "dense/schema.hpp"
#include "order/row_runs.hpp"

namespace unisono::data {

/// Reads the labels of some rows; they may have any type of number, but must be whole and in [0, 2³¹).
/// \throws DataError naming the first example with another label
void read_labels(const hdf5::File& file, const std::string& dataset, Range rows, std::int32_t* labels);

/// The end of a message about labels that are text, with a remedy: "holds text; …".
std::string text_labels_hint();

/// All labels of a group, for a stratified split; empty if there are too many classes for one.
std::vector<std::int32_t> read_strata(const hdf5::File& file, const std::string& dataset, std::int64_t examples);

/// How many of these rows have each label. \param classes larger than every label
std::vector<std::int64_t> count_labels(const hdf5::File& file, const std::string& dataset, const RowRuns& rows,
                                       std::int64_t classes);

/// The largest label of these rows.
std::int32_t largest_label(const hdf5::File& file, const std::string& dataset, Range rows);

/// How many classes a set has: as the file states, or else one more than the largest label of its training group
/// (without one: of any group).
/// \param largest by Split; -1 where there are no labels
/// \throws DataError if a label of any group is too large for that
std::int64_t count_classes(const SetSchema& set, const std::array<std::int32_t, 3>& largest);

}  // namespace unisono::data
