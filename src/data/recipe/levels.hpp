#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace unisono::data {

/// The value of a text that is a number below 2⁵³. Larger ones may be different numbers of the same value in floating
/// point, such as account numbers, and are texts.
std::optional<double> exact_number(std::string_view text);

/// Finds texts among the levels of a category, or the names of classes. Where all of these are numbers, a text is found
/// by its value: "1.0" is the level "1".
class LevelIndex {
 public:
  explicit LevelIndex(const std::vector<std::string>& levels);
  std::optional<std::size_t> find(std::string_view text) const;

 private:
  std::vector<std::string> levels_;
  std::vector<double> values_;  ///< of the levels; empty: not all are numbers
};

/// "red, green, …": names in a message, the first ten of them.
std::string listed(std::vector<std::string> names);

/// \throws DataError: `path` lacks a column that the model was trained on; it names the columns that are there
[[noreturn]] void fail_without_column(const std::string& path, const std::string& column,
                                      const std::vector<std::string>& there);

}  // namespace unisono::data
