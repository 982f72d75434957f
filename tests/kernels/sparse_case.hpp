#pragma once

#include "in_place_fixture.hpp"

namespace unisono::kernels::cpu {

/// Random rows of up to `most` values in `width` columns; each fifth row is empty.
struct SparseCase {
  std::vector<std::uint64_t> offsets{0};
  std::vector<std::uint32_t> columns;
  Floats values, targets, spread;
  Index width;

  SparseCase(Index rows, Index columns_count, Index most, std::uint64_t classes) : width(columns_count) {
    RandomStream random(3, Purpose::test, static_cast<std::uint64_t>(columns_count));
    for (Index i = 0; i < rows; ++i) {
      const auto wanted = i % 5 == 4 ? 0 : random.below(static_cast<std::uint64_t>(most)) + 1;
      for (Index j = 0; j < width; ++j) {
        if (random.below(static_cast<std::uint64_t>(width)) >= wanted) continue;
        columns.push_back(static_cast<std::uint32_t>(j));
        values.push_back(random.uniform(-1, 1));
      }
      offsets.push_back(columns.size());
      targets.push_back(static_cast<float>(random.below(classes)));
    }
    spread = random_floats(width, 4, 1, 5);
  }
  SparseRows rows(bool with_values) const { return {offsets, columns, with_values ? View(values) : View(), width}; }
  reference::Features row(std::size_t i, bool with_values) const {
    reference::Features result;
    for (std::uint64_t k = offsets[i]; k < offsets[i + 1]; ++k) {
      result.emplace_back(columns[k], with_values ? static_cast<double>(values[k]) : 1.0);
    }
    return result;
  }
  std::size_t size() const { return targets.size(); }
  Index count() const { return static_cast<Index>(targets.size()); }

  LinearStep step(bool penalties) const {
    LinearStep result{.rate = 0.05F, .updates_before = 100};
    if (penalties) result.l1 = 0.01F, result.l2 = 0.02F, result.spread = spread.data();
    return result;
  }

  /// Of the same rows, with all features.
  Floats dense() const {
    Floats result(size() * static_cast<std::size_t>(width));
    for (std::size_t i = 0; i < size(); ++i) {
      for (std::uint64_t k = offsets[i]; k < offsets[i + 1]; ++k) {
        result[i * static_cast<std::size_t>(width) + columns[k]] = values[k];
      }
    }
    return result;
  }
};

}  // namespace unisono::kernels::cpu
