#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "unisono/data/hdf5.hpp"

namespace unisono::data {

/// Values of a row of 64 KiB; 16 rows are a block.
inline constexpr std::uint64_t kWideRow = 65536;
inline constexpr std::int64_t kBlockOfWideRows = 16 * kWideRow;

/// Writes a set of such rows: example i has the value i everywhere, and the label i mod 7. \return its path
inline std::string write_wide_rows(const std::string& path, std::int64_t examples) {
  hdf5::File file(path, hdf5::File::Mode::create);
  std::vector<std::uint8_t> features(static_cast<std::size_t>(examples) * kWideRow);
  std::vector<std::int64_t> labels(static_cast<std::size_t>(examples));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    std::fill_n(features.begin() + static_cast<std::ptrdiff_t>(i * kWideRow), kWideRow, static_cast<std::uint8_t>(i));
    labels[i] = static_cast<std::int64_t>(i % 7);
  }
  file.create<std::uint8_t>("train/features", {labels.size(), kWideRow});
  file.write_rows("train/features", 0, labels.size(), features.data());
  file.write("train/labels", labels);
  return path;
}

}  // namespace unisono::data
