#include "config/detail.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace unisono {
namespace {

/// Insertions, deletions, substitutions and swaps of neighbours that turn one word into the other (optimal string
/// alignment).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(above);
    above.swap(row);
  }
  return above[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view name, const std::vector<std::string>& known) {
  constexpr std::size_t kLongest = 100;  // nobody mistypes so long a name
  if (name.empty() || name.size() > kLongest) return "";
  std::size_t best = std::min(std::max<std::size_t>(1, name.size() / 3), name.size() - 1) + 1;
  std::string nearest;
  for (const std::string& candidate : known) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

namespace detail {

std::string join_path(std::string_view table, std::string_view name) {
  return table.empty() ? std::string(name) : fmt::format("{}.{}", table, name);
}

std::string in_table(std::string_view path) {
  if (path.empty()) return " at the top level";
  return path.find('[') == std::string_view::npos ? fmt::format(" in [{}]", path) : fmt::format(" in {}", path);
}

bool in_range(const Field& field, double value) {
  const bool above = field.minimum_excluded ? value > field.minimum : value >= field.minimum;
  const bool below = field.maximum_excluded ? value < field.maximum : value <= field.maximum;
  return above && below;
}

std::string range_text(const Field& field) {
  const bool low = std::isfinite(field.minimum), high = std::isfinite(field.maximum);
  std::string text;
  if (low) text += fmt::format("{} {}", field.minimum_excluded ? "above" : "at least", field.minimum);
  if (low && high) text += " and ";
  if (high) text += fmt::format("{} {}", field.maximum_excluded ? "below" : "at most", field.maximum);
  if (!text.empty() && !field.unit.empty()) text += fmt::format(" {}", field.unit);
  return text;
}

std::string quoted(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += fmt::format("{}'{}'", text.empty() ? "" : ", ", name);
  return text;
}

std::int64_t value_of_word(const Field& field) { return field.minimum == 0 ? -1 : 0; }

std::string toml_text(std::int64_t value, const Field& field, const Choice& word) {
  return value == value_of_word(field) ? toml_text(std::string(word.name)) : toml_text(value);
}
std::string toml_text(bool value) { return value ? "true" : "false"; }

std::string toml_text(std::int64_t value) { return fmt::format("{}", value); }

std::string toml_text(double value) {
  std::string text = fmt::format("{}", value);  // the shortest that reads back the same
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string toml_text(const std::string& value) {
  std::string text = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      text += fmt::format("\\{}", c);
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      text += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
    } else {
      text += c;
    }
  }
  return text + "\"";
}

}  // namespace detail
}  // namespace unisono
