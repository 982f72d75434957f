#include "report/plot/colours.hpp"

#include <fmt/format.h>

#include <array>

namespace unisono::experiment::plot {

std::string colour_of(std::size_t i) { return fmt::format("var(--series-{})", i % kSeriesColours + 1); }

const char* dashes_of(std::size_t i) {
  constexpr std::array<const char*, 4> kDashes = {"", "6 3", "2 3", "8 3 2 3"};
  return kDashes[i / kSeriesColours % kDashes.size()];
}

}  // namespace unisono::experiment::plot
