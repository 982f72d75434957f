#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "order/slice.hpp"
#include "unisono/data/hdf5.hpp"

// One-dimensional datasets, read a piece at a time and checked.

namespace unisono::data {

/// Whole numbers of [0, limit): visit(first, values), piece after piece.
/// \throws DataError naming the place of the first that is not
void visit_numbers(const hdf5::File& file, const std::string& dataset, Range range, std::int64_t limit,
                   const std::function<void(std::int64_t first, std::span<const std::int64_t> values)>& visit);

/// Finite numbers. \throws DataError naming the place of the first that is not
void visit_floats(const hdf5::File& file, const std::string& dataset, Range range,
                  const std::function<void(std::int64_t first, std::span<const float> values)>& visit);

/// Offsets [first, last] of rows: they begin at 0 (where `first` is), never fall, and end at `end` (where `last` is the
/// last). \throws DataError
std::vector<std::uint64_t> read_offsets(const hdf5::File& file, const std::string& dataset, std::int64_t rows,
                                        std::int64_t end);

}  // namespace unisono::data
