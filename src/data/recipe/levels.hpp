#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace unisono::data {

/// The value of a text if it is a number below 2⁵³. Larger ones, e.g. account numbers, count as text, because different
/// ones may have the same double.
std::optional<double> exact_number(std::string_view text);

/// Finds a text among the levels of a category, or among names of classes. If all of these are numbers, texts are
/// compared by value: "1.0" is the level "1".
class LevelIndex {
 public:
  explicit LevelIndex(const std::vector<std::string>& levels);
  std::optional<std::size_t> find(std::string_view text) const;

 private:
  std::vector<std::string> levels_;
  std::vector<double> values_;  ///< of the levels; empty if not all are numbers
};

/// "red, green, …": the first ten names, for a message.
std::string listed(std::vector<std::string> names);

/// \throws DataError saying that `path` lacks a column that the model was trained on, and which columns it has
[[noreturn]] void fail_without_column(const std::string& path, const std::string& column,
                                      const std::vector<std::string>& there);

}  // namespace unisono::data
