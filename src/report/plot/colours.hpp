#pragma once

#include <cstddef>
#include <string>

namespace unisono::report::plot {

// Colours are CSS variables, which a page sets for light and for dark (page_style.cpp). The first seven of series
// follow Okabe and Ito, which people with any kind of colour vision tell apart.

inline constexpr std::size_t kSeriesColours = 9;
inline constexpr const char* kText = "var(--text)";
inline constexpr const char* kFaint = "var(--faint)";  ///< texts of less weight
inline constexpr const char* kGrid = "var(--grid)";
inline constexpr const char* kShade = "var(--series-1)";     ///< of cells of a matrix, by opacity
inline constexpr const char* kOnShade = "var(--on-series)";  ///< texts on it, where it is opaque

/// The colour of series i.
std::string colour_of(std::size_t i);
/// A colour between those of series i and j. \param share of j, from 0 to 1
std::string colour_between(std::size_t i, std::size_t j, double share);
/// The dashes of line i: solid as long as colours are new.
const char* dashes_of(std::size_t i);

}  // namespace unisono::report::plot
