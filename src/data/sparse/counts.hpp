#pragma once

#include <cstdint>
#include <vector>

#include "sparse/split.hpp"

// Figures of a split that every rank has all of, in the order of its memory: the same on every rank.

namespace unisono::data {

double mean_rating(const LoadedSplit& split);
/// How many ratings each user has and, behind all users, each item.
std::vector<std::int64_t> count_ratings(const LoadedSplit& split, Index users, Index items);
/// How many rows have each feature.
std::vector<std::int64_t> count_features(const LoadedSplit& split, Index columns);
/// How many rows each class has.
std::vector<std::int64_t> count_labels(const LoadedSplit& split, Index classes);

}  // namespace unisono::data
