#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "unisono/data/dictionary.hpp"

namespace unisono::apply {

/// A model's words, for finding rows by name.
class Vocabulary {
 public:
  explicit Vocabulary(data::NameTable names);
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  std::size_t size() const { return names_.names.size(); }
  /// Whether no word has a capital letter; `find` then ignores case.
  bool is_lower_case() const { return lower_case_; }
  /// The row of each word, or −1 if it is unknown.
  std::vector<std::int32_t> find(std::vector<std::string> words) const;
  /// The rows of the `count` most frequent words, the most frequent first (all, if there are fewer). Without counts:
  /// the first rows.
  std::vector<std::int32_t> most_frequent(std::int64_t count) const;

 private:
  data::NameTable names_;
  bool lower_case_;
  std::unordered_map<std::string_view, std::int32_t> rows_;
};

}  // namespace unisono::apply
