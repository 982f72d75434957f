#define TOML_IMPLEMENTATION
#include "config_table.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>

#include "config_detail.hpp"
#include "unisono/base/errors.hpp"

namespace unisono {
namespace {

constexpr std::size_t kMostBytes = std::size_t{16} << 20;

}  // namespace

ConfigText read_config(const std::string& path, std::vector<std::string> overrides) {
  std::ifstream file(path);
  std::string text;
  std::array<char, 4096> part{};
  while (text.size() <= kMostBytes && (file.read(part.data(), part.size()) || file.gcount() > 0)) {
    text.append(part.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (!file.is_open() || file.bad()) {
    throw ConfigError(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
  }
  if (text.size() > kMostBytes) throw ConfigError(fmt::format("{}: is no config: it has more than 16 MiB", path));
  return {path, std::move(text), std::move(overrides)};
}

namespace detail {
namespace {

constexpr std::string_view kSet = "--set ";

/// One "--set train.epochs=3".
struct Override {
  std::string source;             ///< as the user wrote it
  std::vector<std::string> path;  ///< "train", "epochs"
  std::string value;              ///< "3"
};

[[noreturn]] void fail(const Override& override, std::string_view reason) {
  throw ConfigError(fmt::format("{}: {}", override.source, reason));
}

toml::table parse(std::string_view text, const std::string& file) {
  try {
    return toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    throw ConfigError(fmt::format("{}: no valid TOML: {}", place(error.source(), file), error.description()));
  } catch (const std::logic_error&) {  // see toml.hpp
    throw ConfigError(fmt::format("{}: no valid TOML", file));
  }
}

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  return first == std::string_view::npos ? ""
                                         : std::string(text.substr(first, text.find_last_not_of(" \t") + 1 - first));
}

Override split(const std::string& text) {
  Override result{.source = std::string(kSet) + text, .path = {}, .value = {}};
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) fail(result, "a key and its value are expected, as in --set train.epochs=3");
  result.value = trimmed(text.substr(equals + 1));
  std::istringstream keys(text.substr(0, equals) + ".");
  for (std::string key; std::getline(keys, key, '.');) {
    result.path.push_back(trimmed(key));
    if (result.path.back().empty()) fail(result, "a key is empty; write it as in --set train.epochs=3");
  }
  return result;
}

/// The table { value = … }, which owns the override's value.
toml::table parse_value(const Override& override, std::string_view value) {
  // A value that does not begin as one of TOML's (a quote, a bracket) may be a bare string: --set optimizer.kind=adam
  const bool bracketed = value.find_first_of("\"'[{") == 0;
  try {
    toml::table table = parse(fmt::format("value = {}", value), override.source);
    if (table.size() == 1) return table;
  } catch (const ConfigError&) {
    if (bracketed) throw;
  }
  return parse(fmt::format("value = {}", toml_text(std::string(value))), override.source);
}

/// The element that a step of an override's path names, or null where an array has none such.
toml::node* element(toml::array& array, const std::string& step) {
  std::size_t index = array.size();
  const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), index);
  return error == std::errc{} && end == step.data() + step.size() ? array.get(index) : nullptr;
}

/// What lies at path[depth] of `parent`; a table that is missing is made.
toml::node& descend(toml::node& parent, const Override& override, std::size_t depth) {
  const std::string& step = override.path[depth];
  if (toml::table* table = parent.as_table()) {
    if (toml::node* child = table->get(step)) return *child;
    toml::table made = parse_value(override, "{}");
    toml::node& empty = *made.get("value");
    return table->insert_or_assign(toml::key(step, empty.source()), std::move(*empty.as_table())).first->second;
  }
  toml::array* array = parent.as_array();
  if (array == nullptr) fail(override, fmt::format("'{}' is no table: it has no keys", override.path[depth - 1]));
  toml::node* child = element(*array, step);
  if (child == nullptr) {
    fail(override, fmt::format("'{}' is none of the {} elements of '{}', which are numbered from 0", step,
                               array->size(), override.path[depth - 1]));
  }
  return *child;
}

void apply(toml::table& root, const Override& override) {
  toml::node* parent = &root;
  for (std::size_t depth = 0; depth + 1 < override.path.size(); ++depth) parent = &descend(*parent, override, depth);

  toml::table holder = parse_value(override, override.value);
  toml::node& value = *holder.get("value");
  const std::string& last = override.path.back();
  if (toml::array* array = parent->as_array()) {
    descend(*array, override, override.path.size() - 1);  // exists
    const auto at = array->cbegin() + static_cast<std::ptrdiff_t>(std::stoul(last));
    value.visit([&](auto& typed) { array->replace(at, std::move(typed)); });
  } else if (toml::table* table = parent->as_table()) {
    const toml::key key(last, value.source());
    value.visit([&](auto& typed) { table->insert_or_assign(key, std::move(typed)); });
  } else {
    fail(override, fmt::format("'{}' is no table: it has no keys", override.path[override.path.size() - 2]));
  }
}

}  // namespace

std::string place(const toml::source_region& region, const std::string& file) {
  if (region.path && region.path->starts_with(kSet)) return *region.path;
  if (!region.begin) return file;
  return fmt::format("{}:{}:{}", file, region.begin.line, region.begin.column);
}

toml::table load_table(const ConfigText& config) {
  toml::table table = parse(config.text, config.path);
  for (const std::string& text : config.overrides) apply(table, split(text));
  return table;
}

}  // namespace detail
}  // namespace unisono
