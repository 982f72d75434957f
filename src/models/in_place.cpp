#include "unisono/models/in_place.hpp"

#include <algorithm>
#include <atomic>

namespace unisono {

TouchedRows::TouchedRows(const std::vector<RowSpace>& spaces) {
  for (const RowSpace& space : spaces) marks_.emplace_back(static_cast<std::size_t>(space.rows));
}

void TouchedRows::mark(std::size_t space, Index row) {
  std::atomic_ref<std::uint8_t>(marks_[space][static_cast<std::size_t>(row)]).store(1, std::memory_order_relaxed);
}

void TouchedRows::clear() {
  for (auto& marks : marks_) std::fill(marks.begin(), marks.end(), std::uint8_t{0});
}

}  // namespace unisono
