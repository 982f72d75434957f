#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "unisono/data/batch.hpp"
#include "unisono/tensor/allocator.hpp"

namespace unisono::strategies {

/// The values of some features of a set's rows, in memory of their own: a thread that reads only these reads them one
/// after the other.
class PartOfRows {
 public:
  /// \param begins, ends of each row's values that belong to the part
  void take(const data::LabelledRows& whole, std::span<const std::uint64_t> begins,
            std::span<const std::uint64_t> ends) {
    offsets_.assign(1, 0);
    offsets_.reserve(begins.size() + 1);
    for (std::size_t i = 0; i < begins.size(); ++i) offsets_.push_back(offsets_.back() + ends[i] - begins[i]);
    reserve(columns_, offsets_.back());
    reserve(values_, whole.rows.values.empty() ? 0 : offsets_.back());
    for (std::size_t i = 0; i < begins.size(); ++i) {
      const auto first = static_cast<std::ptrdiff_t>(begins[i]), last = static_cast<std::ptrdiff_t>(ends[i]);
      columns_.insert(columns_.end(), whole.rows.columns.begin() + first, whole.rows.columns.begin() + last);
      if (whole.rows.values.empty()) continue;
      values_.insert(values_.end(), whole.rows.values.begin() + first, whole.rows.values.begin() + last);
    }
    data::LabelledRows part = whole;
    part.rows.offsets = offsets_;
    part.rows.columns = columns_;
    part.rows.values = values_;
    set_ = part;
  }

  const data::ExampleSet& set() const { return set_; }
  std::span<const std::uint64_t> begins() const { return std::span(offsets_).first(offsets_.size() - 1); }
  std::span<const std::uint64_t> ends() const { return std::span(offsets_).subspan(1); }

 private:
  template <typename Value>
  static void reserve(std::vector<Value>& values, std::size_t count) {
    values.reserve(count);
    ask_for_huge_pages(values.data(), count * sizeof(Value));
  }

  std::vector<std::uint64_t> offsets_{0};
  std::vector<std::uint32_t> columns_;
  std::vector<float> values_;
  data::ExampleSet set_;
};

}  // namespace unisono::strategies
