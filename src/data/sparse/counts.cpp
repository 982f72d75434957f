#include "sparse/counts.hpp"

namespace unisono::data {

double mean_rating(const LoadedSplit& split) {
  const auto entries = std::get<SparseEntries>(split.set);
  double sum = 0;
  for (const ExampleRange& chunk : split.chunks) {
    for (std::int64_t i = chunk.first; i < chunk.last; ++i) {
      sum += static_cast<double>(entries[static_cast<std::size_t>(i)].value);
    }
  }
  return sum / static_cast<double>(split.examples);
}

std::vector<std::int64_t> count_ratings(const LoadedSplit& split, Index users, Index items) {
  const auto entries = std::get<SparseEntries>(split.set);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(users + items));
  for (const ExampleRange& chunk : split.chunks) {
    for (std::int64_t i = chunk.first; i < chunk.last; ++i) {
      const SparseEntry& entry = entries[static_cast<std::size_t>(i)];
      ++counts[entry.row];
      ++counts[static_cast<std::size_t>(users) + entry.column];
    }
  }
  return counts;
}

std::vector<std::int64_t> count_features(const LoadedSplit& split, Index columns) {
  const SparseRows& rows = std::get<LabelledRows>(split.set).rows;
  std::vector<std::int64_t> counts(static_cast<std::size_t>(columns));
  for (const ExampleRange& chunk : split.chunks) {
    const auto first = rows.offsets[static_cast<std::size_t>(chunk.first)];
    const auto last = rows.offsets[static_cast<std::size_t>(chunk.last)];
    for (std::uint64_t i = first; i < last; ++i) ++counts[rows.columns[i]];
  }
  return counts;
}

std::vector<std::int64_t> count_labels(const LoadedSplit& split, Index classes) {
  const View targets = std::get<LabelledRows>(split.set).targets;
  std::vector<std::int64_t> counts(static_cast<std::size_t>(classes));
  for (const ExampleRange& chunk : split.chunks) {
    for (std::int64_t row = chunk.first; row < chunk.last; ++row) {
      ++counts[static_cast<std::size_t>(targets[static_cast<std::size_t>(row)])];
    }
  }
  return counts;
}

std::int64_t count_values(const LoadedSplit& split) {
  const auto offsets = std::get<LabelledRows>(split.set).rows.offsets;
  std::uint64_t values = 0;
  for (const ExampleRange& chunk : split.chunks) {
    values += offsets[static_cast<std::size_t>(chunk.last)] - offsets[static_cast<std::size_t>(chunk.first)];
  }
  return static_cast<std::int64_t>(values);
}

}  // namespace unisono::data
