#pragma once

#include <vector>

#include "dense/rows.hpp"

namespace unisono::data {

/// What the values of a group look like.
struct Survey {
  double low = 0, high = 0, mean = 0, deviation = 0;
  std::int64_t examples = 0;  ///< that were looked at
};

/// Of the features; of large groups evenly spread blocks are looked at, some 256 MiB.
Survey survey_features(const hdf5::File& file, const GroupSchema& group);
Survey survey_targets(const hdf5::File& file, const GroupSchema& group);

/// How many examples have each label.
std::vector<std::int64_t> count_labels(const hdf5::File& file, const GroupSchema& group);

}  // namespace unisono::data
