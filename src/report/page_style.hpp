#pragma once

#include <string_view>

namespace unisono::report {

/// CSS of all pages, with the colours of plot/colours.hpp, for light and dark.
extern const std::string_view kPageStyle;
/// JavaScript of all pages: tables that are sorted by a click on a column's head.
extern const std::string_view kPageScript;

}  // namespace unisono::report
