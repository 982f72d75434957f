#include "plot/colours.hpp"

#include <fmt/format.h>

#include <array>

namespace unisono::report::plot {

std::string colour_of(std::size_t i) { return fmt::format("var(--series-{})", i % kSeriesColours + 1); }

std::string colour_between(std::size_t i, std::size_t j, double share) {
  return fmt::format("color-mix(in oklab, {} {:.0f}%, {})", colour_of(j), 100 * share, colour_of(i));
}

const char* dashes_of(std::size_t i) {
  constexpr std::array<const char*, 4> kDashes = {"", "6 3", "2 3", "8 3 2 3"};
  return kDashes[i / kSeriesColours % kDashes.size()];
}

}  // namespace unisono::report::plot
