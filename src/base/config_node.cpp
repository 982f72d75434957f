#include "config_node.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "config_table.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::detail {
namespace {

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

}  // namespace

std::string type_name(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "an array";
    case toml::node_type::string:
      return fmt::format("the string '{}'", *node.value<std::string>());
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a floating-point number";
    case toml::node_type::boolean:
      return "a boolean";
    default:
      return "a date or time";
  }
}

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

}  // namespace unisono::detail
