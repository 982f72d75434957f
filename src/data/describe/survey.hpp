#pragma once

#include <vector>

#include "dense/rows.hpp"

namespace unisono::data {

/// Range, mean and deviation of a group's values.
struct Survey {
  double low = 0, high = 0, mean = 0, deviation = 0;
  std::int64_t examples = 0;  ///< that were read
};

/// Surveys the features; of a large group only evenly spaced blocks are read, about 256 MiB.
Survey survey_features(const hdf5::File& file, const GroupSchema& group);
Survey survey_targets(const hdf5::File& file, const GroupSchema& group);

/// How many examples have each label.
std::vector<std::int64_t> count_labels(const hdf5::File& file, const GroupSchema& group);

}  // namespace unisono::data
