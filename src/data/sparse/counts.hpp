#pragma once

#include <cstdint>
#include <vector>

#include "sparse/split.hpp"

// Statistics of a split that every rank holds completely; the same on every rank. Not collective.

namespace unisono::data {

/// The mean of the ratings.
double mean_rating(const LoadedSplit& split);
/// How many ratings each user has, followed by how many each item has: [users + items].
std::vector<std::int64_t> count_ratings(const LoadedSplit& split, Index users, Index items);
/// How many rows have each feature.
std::vector<std::int64_t> count_features(const LoadedSplit& split, Index columns);
/// How many rows each class has.
std::vector<std::int64_t> count_labels(const LoadedSplit& split, Index classes);

/// How many values the rows of a split have.
std::int64_t count_values(const LoadedSplit& split);

}  // namespace unisono::data
