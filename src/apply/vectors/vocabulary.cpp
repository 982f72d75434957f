#include "vectors/vocabulary.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace unisono::apply {

Vocabulary::Vocabulary(data::NameTable names)
    : names_(std::move(names)), lower_case_(data::lowercase(names_.names) == names_.names) {
  for (std::size_t row = 0; row < size(); ++row) rows_.emplace(names_.names[row], static_cast<std::int32_t>(row));
}

std::vector<std::int32_t> Vocabulary::find(std::vector<std::string> words) const {
  if (lower_case_) words = data::lowercase(std::move(words));
  std::vector<std::int32_t> found;
  for (const std::string& word : words) {
    const auto row = rows_.find(word);
    found.push_back(row == rows_.end() ? -1 : row->second);
  }
  return found;
}

std::vector<std::int32_t> Vocabulary::most_frequent(std::int64_t count) const {
  std::vector<std::int32_t> rows(size());
  std::iota(rows.begin(), rows.end(), 0);
  const auto& counts = names_.counts;
  if (!counts.empty()) {
    std::stable_sort(rows.begin(), rows.end(), [&](std::int32_t a, std::int32_t b) {
      return counts[static_cast<std::size_t>(a)] > counts[static_cast<std::size_t>(b)];
    });
  }
  rows.resize(std::min(rows.size(), static_cast<std::size_t>(count)));
  return rows;
}

}  // namespace unisono::apply
