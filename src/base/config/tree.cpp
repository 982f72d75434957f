#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "config/detail.hpp"
#include "config/table.hpp"
#include "unisono/base/config_tree.hpp"
#include "unisono/base/errors.hpp"

namespace unisono {
namespace {

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
