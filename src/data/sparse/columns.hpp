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

/// Reads whole numbers in [0, limit), and calls visit(first, values) for piece after piece.
/// \throws DataError naming the place of the first other value
void visit_numbers(const hdf5::File& file, const std::string& dataset, Range range, std::int64_t limit,
                   const std::function<void(std::int64_t first, std::span<const std::int64_t> values)>& visit);

/// Reads finite numbers, likewise. \throws DataError naming the place of the first other value
void visit_floats(const hdf5::File& file, const std::string& dataset, Range range,
                  const std::function<void(std::int64_t first, std::span<const float> values)>& visit);

/// Reads the rows + 1 offsets of rows (CSR) or sentences, and checks that they begin at 0, never decrease, and end at
/// `end`. \throws DataError
std::vector<std::uint64_t> read_offsets(const hdf5::File& file, const std::string& dataset, std::int64_t rows,
                                        std::int64_t end);

}  // namespace unisono::data
