#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "import/rows.hpp"

namespace unisono::data {

/// One line of LIBSVM's text.
struct LibsvmRow {
  double label = 0;
  std::vector<std::uint32_t> indices;  ///< as they are written, ascending
  std::vector<float> values;           ///< beside them
  /// Bytes of the line, from 1, where the label, the first index and the last one begin.
  std::size_t label_at = 0, first_at = 0, last_at = 0;
};

/// \param line where the text is, for messages \return false for a line that is nothing but a comment
/// \throws DataError naming line and byte of what is wrong
bool parse_libsvm(const LineReader& line, std::string_view text, LibsvmRow& row);

}  // namespace unisono::data
