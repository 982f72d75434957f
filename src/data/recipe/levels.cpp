#include "recipe/levels.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "unisono/base/config.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

constexpr std::size_t kShown = 10;

}  // namespace

std::optional<double> exact_number(std::string_view text) {
  constexpr double kLargest = 1LL << 53;
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(std::abs(value) < kLargest)) return std::nullopt;
  return value;
}

LevelIndex::LevelIndex(const std::vector<std::string>& levels) : levels_(levels) {
  for (const std::string& level : levels_) {
    const auto value = exact_number(level);
    if (!value && !level.empty()) {
      values_.clear();
      return;
    }
    values_.push_back(value.value_or(std::numeric_limits<double>::quiet_NaN()));  // "" is a missing value, not a number
  }
}

std::optional<std::size_t> LevelIndex::find(std::string_view text) const {
  const auto level = std::find(levels_.begin(), levels_.end(), text);
  if (level != levels_.end()) return static_cast<std::size_t>(level - levels_.begin());
  const auto number = exact_number(text);
  const auto value = number ? std::find(values_.begin(), values_.end(), *number) : values_.end();
  if (value == values_.end()) return std::nullopt;
  return static_cast<std::size_t>(value - values_.begin());
}

std::string listed(std::vector<std::string> names) {
  const std::size_t count = names.size();
  names.resize(std::min(count, kShown));
  return fmt::format("{}{}", fmt::join(names, ", "), count > kShown ? ", …" : "");
}

void fail_without_column(const std::string& path, const std::string& column, const std::vector<std::string>& there) {
  const std::string nearest = nearest_name(column, there);
  throw DataError(fmt::format("{}: has no column '{}', which the model was trained on; its columns are {}{}", path,
                              column, listed(there),
                              nearest.empty() ? "" : fmt::format(" (is it '{}'? then rename it)", nearest)));
}

}  // namespace unisono::data
