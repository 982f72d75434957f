#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/base/text.hpp"
#include "unisono/data/hdf5.hpp"

namespace unisono::data {

/// 1536 → "1.5 KiB"
std::string size_text(double bytes);

/// "12.3 %"
std::string share_text(std::int64_t part, std::int64_t whole);

/// The line above the table of classes. \param counts examples of each class
std::string labels_line(std::string_view type, const std::vector<std::int64_t>& counts);

/// A line for each class: number, name, examples and their share. If there are many classes, only the first ones.
std::string balance_text(const std::vector<std::int64_t>& counts, const std::vector<std::string>& names);

/// "PATH: SIZE, ": the beginning of a description's first line.
std::string title_text(const hdf5::File& file);

}  // namespace unisono::data
