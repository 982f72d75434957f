#include "config/detail.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "unisono/base/errors.hpp"

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
  const auto& [least, most, above_least, below_most] = field.range;
  return (above_least ? value > least : value >= least) && (below_most ? value < most : value <= most);
}

std::string range_text(const Field& field) {
  const auto& [least, most, above_least, below_most] = field.range;
  std::string text;
  if (std::isfinite(least)) text += fmt::format("{} {}", above_least ? "above" : "at least", least);
  if (std::isfinite(least) && std::isfinite(most)) text += " and ";
  if (std::isfinite(most)) text += fmt::format("{} {}", below_most ? "below" : "at most", most);
  if (!text.empty() && !field.unit.empty()) text += fmt::format(" {}", field.unit);
  return text;
}

std::string quoted(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += fmt::format("{}'{}'", text.empty() ? "" : ", ", name);
  return text;
}

std::int64_t value_of_word(const Field& field) { return field.range.least == 0 ? -1 : 0; }

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

namespace {

bool is_bare(const std::string& key) {
  constexpr std::string_view kBare = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
  return !key.empty() && key.find_first_not_of(kBare) == std::string::npos;
}

std::string text_of(const ConfigValue::Table& table) {
  std::string text;
  for (const auto& [key, value] : table) {
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", toml_key(key), toml_text(value));
  }
  return text.empty() ? "{}" : "{ " + text + " }";
}

std::string text_of(const ConfigValue::Array& array) {
  std::string text;
  for (const ConfigValue& value : array) text += (text.empty() ? "" : ", ") + toml_text(value);
  return "[" + text + "]";
}

template <typename Scalar>
std::string text_of(const Scalar& value) {
  return detail::toml_text(value);
}

using namespace detail;

/// toml++ sorts the keys of a table by name.
std::vector<const toml::key*> keys_in_order(const toml::table& table) {
  std::vector<const toml::key*> keys;
  for (const auto& entry : table) keys.push_back(&entry.first);
  std::ranges::stable_sort(keys, {}, [&](const toml::key* key) {
    const toml::source_region& source = is_override(*table.get(*key)) ? table.get(*key)->source() : key->source();
    return std::tuple(is_override(*table.get(*key)), source.begin.line, source.begin.column);
  });
  return keys;
}

/// Adds the keys of a table. One that is written in braces is a value.
void add_keys(const toml::table& table, const std::string& path, ConfigTree& tree) {
  for (const auto& [key, node] : table) {
    const std::string name = join_path(path, toml_key(std::string(key.str())));
    const toml::table* const inner = node.as_table();
    if (inner != nullptr && !inner->is_inline()) {
      add_keys(*inner, name, tree);
    } else {
      tree.emplace(name, config_value(node, ""));
    }
  }
}

}  // namespace

bool ConfigValue::operator==(const ConfigValue& other) const { return value == other.value; }

const ConfigValue* ConfigValue::find(const std::string& key) const {
  const Table* const entries = table();
  if (entries == nullptr) return nullptr;
  for (const auto& [name, inner] : *entries) {
    if (name == key) return &inner;
  }
  return nullptr;
}

std::optional<double> ConfigValue::number() const {
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&value)) return *real;
  return std::nullopt;
}

std::string toml_key(const std::string& key) { return is_bare(key) ? key : detail::toml_text(key); }

std::string toml_text(const ConfigValue& value) {
  return std::visit([](const auto& content) { return text_of(content); }, value.value);
}

namespace detail {

ConfigValue config_value(const toml::node& node, const std::string& file) {
  ConfigValue result;
  result.place = place(node.source(), file);
  if (const toml::table* table = node.as_table()) {
    ConfigValue::Table entries;
    for (const toml::key* key : keys_in_order(*table)) {
      entries.push_back({std::string(key->str()), config_value(*table->get(*key), file)});
    }
    result.value = std::move(entries);
  } else if (const toml::array* array = node.as_array()) {
    ConfigValue::Array elements;
    for (const toml::node& element : *array) elements.push_back(config_value(element, file));
    result.value = std::move(elements);
  } else if (const auto* text = node.as_string()) {
    result.value = text->get();
  } else if (const auto* whole = node.as_integer()) {
    result.value = whole->get();
  } else if (const auto* number = node.as_floating_point()) {
    result.value = number->get();
  } else if (const auto* flag = node.as_boolean()) {
    result.value = flag->get();
  } else {
    throw ConfigError(fmt::format("{}: no key takes a date or time; write it as a string", result.place));
  }
  return result;
}

}  // namespace detail

ConfigTree config_tree(const ConfigText& config) {
  ConfigTree tree;
  add_keys(detail::load_table(config).table, "", tree);
  return tree;
}

std::vector<ConfigDifference> differences(const ConfigTree& before, const ConfigTree& after) {
  std::vector<ConfigDifference> found;
  const auto value_in = [](const ConfigTree& tree, const std::string& key) {
    const auto at = tree.find(key);
    return at == tree.end() ? std::nullopt : std::optional(at->second);
  };
  ConfigTree all = before;
  all.insert(after.begin(), after.end());
  for (const auto& [key, value] : all) {
    ConfigDifference one{.key = key, .before = value_in(before, key), .after = value_in(after, key)};
    if (one.before != one.after) found.push_back(std::move(one));
  }
  return found;
}

}  // namespace unisono
