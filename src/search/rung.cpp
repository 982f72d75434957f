#include "rung.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "unisono/base/errors.hpp"

namespace unisono::search {

std::vector<Rung> make_rungs(std::int64_t epochs, std::int64_t least, std::int64_t reduction_factor) {
  std::vector<Rung> rungs;
  for (std::int64_t e = epochs; e >= least; e /= reduction_factor) rungs.emplace_back(e);
  if (rungs.size() < 2) {
    throw ConfigError(fmt::format(
        "search.method trains the better trials for {} times as long, and at first for at least {} "
        "(search.least_epochs "
        "= {}), but train.epochs = {} leaves no room for that: raise train.epochs, or lower search.least_epochs or "
        "search.reduction_factor",
        reduction_factor, least == 1 ? "1 epoch" : fmt::format("{} epochs", least), least, epochs));
  }
  std::ranges::reverse(rungs);
  return rungs;
}

std::size_t rung_of(const std::vector<Rung>& rungs, std::int64_t epochs) {
  return static_cast<std::size_t>(std::ranges::find(rungs, epochs, &Rung::epochs) - rungs.begin());
}

}  // namespace unisono::search
