#define TOML_IMPLEMENTATION
#include "config_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "config_detail.hpp"
#include "toml_error.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/text.hpp"

namespace unisono {
namespace {

constexpr std::size_t kMostBytes = std::size_t{16} << 20;

}  // namespace

ConfigText read_config(const std::string& path, std::vector<std::string> overrides, std::vector<std::string> removals) {
  std::ifstream file(path);
  std::string text;
  std::array<char, 4096> part{};
  while (text.size() <= kMostBytes && (file.read(part.data(), part.size()) || file.gcount() > 0)) {
    text.append(part.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (!file.is_open() || file.bad()) {
    const int error = errno;
    if (error == EISDIR) {
      const std::string own = (std::filesystem::path(path) / "config.toml").string();
      throw ConfigError(fmt::format("{}: is a folder, not a config file{}", path,
                                    std::filesystem::exists(own) ? "; name the file " + own : ""));
    }
    throw ConfigError(fmt::format("{}: cannot be read: {}", path, std::strerror(error)));
  }
  if (text.size() > kMostBytes)
    throw ConfigError(fmt::format("{}: is not a config file: it is larger than 16 MiB", path));
  return {path, std::move(text), std::move(overrides), std::move(removals)};
}

namespace detail {
namespace {

constexpr std::string_view kSet = "--set ", kUnset = "--unset ";

/// One "--set train.epochs=3", or "--unset train.epochs", which has no value.
struct Override {
  std::string source;             ///< as the user wrote it
  std::vector<std::string> path;  ///< "train", "epochs"
  std::string value;              ///< "3"
};

[[noreturn]] void fail(const Override& override, std::string_view reason) {
  throw ConfigError(fmt::format("{}: {}", override.source, reason));
}

/// "configs/lenet.toml:2:8: WHAT", with the line and a caret below; of an override, WHAT alone.
std::string message_of(const toml::parse_error& error, std::string_view text, const std::string& file) {
  const toml::source_position& at = error.source().begin;
  const TomlProblem problem = explain({at.line, at.column, error.description()}, text);
  if (file.starts_with(kSet)) return fmt::format("{}: {}", file, problem.text);
  return fmt::format("{}:{}:{}: {}{}", file, problem.line, problem.column, problem.text, problem.excerpt);
}

toml::table parse(std::string_view text, const std::string& file) {
  try {
    return toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    throw ConfigError(message_of(error, text, file));
  } catch (const std::logic_error&) {  // see toml.hpp
    throw ConfigError(fmt::format("{}: this is not valid TOML", file));
  }
}

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  return first == std::string_view::npos ? ""
                                         : std::string(text.substr(first, text.find_last_not_of(" \t") + 1 - first));
}

/// The steps of "train.epochs". \param example how to write it
void split_path(Override& override, const std::string& path, std::string_view example) {
  std::istringstream keys(path + ".");
  for (std::string key; std::getline(keys, key, '.');) {
    override.path.push_back(trimmed(key));
    if (override.path.back().empty()) fail(override, fmt::format("a key is empty; write it as in {}", example));
  }
}

Override split(const std::string& text) {
  Override result{.source = std::string(kSet) + text, .path = {}, .value = {}};
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) fail(result, "a key and its value are expected, as in --set train.epochs=3");
  result.value = trimmed(text.substr(equals + 1));
  split_path(result, text.substr(0, equals), "--set train.epochs=3");
  return result;
}

Override split_removal(const std::string& text) {
  Override result{.source = std::string(kUnset) + text, .path = {}, .value = {}};
  if (text.find('=') != std::string::npos)
    fail(result, "a key without a value is expected, as in --unset train.epochs");
  split_path(result, text, "--unset train.epochs");
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

/// Removes what is at path[depth…] from `parent`.
void remove(toml::node& parent, const Override& removal, std::size_t depth = 0) {
  toml::table* const table = parent.as_table();
  toml::array* const array = parent.as_array();
  toml::node* child = nullptr;
  if (table != nullptr) child = table->get(removal.path[depth]);
  if (array != nullptr) child = element(*array, removal.path[depth]);
  if (child == nullptr) fail(removal, "the config file has no such key");
  if (depth + 1 < removal.path.size()) return remove(*child, removal, depth + 1);
  if (table != nullptr) {
    table->erase(removal.path[depth]);
  } else {
    array->erase(array->cbegin() + static_cast<std::ptrdiff_t>(std::stoul(removal.path[depth])));
  }
}

/// Later elements of an array go first, so that numbers are those of the file.
void remove_all(toml::table& root, const std::vector<std::string>& texts) {
  std::vector<Override> removals;
  for (const std::string& text : texts) removals.push_back(split_removal(text));
  const auto step_before = [](const std::string& a, const std::string& b) {
    const auto is_number = [](const std::string& step) {
      return step.find_first_not_of("0123456789") == std::string::npos;
    };
    return is_number(a) && is_number(b) && a.size() != b.size() ? a.size() > b.size() : a > b;
  };
  std::stable_sort(removals.begin(), removals.end(), [&](const Override& a, const Override& b) {
    return std::lexicographical_compare(a.path.begin(), a.path.end(), b.path.begin(), b.path.end(), step_before);
  });
  for (const Override& removal : removals) remove(root, removal);
}

/// The node at path[depth] of `parent`; a missing table is created.
toml::node& descend(toml::node& parent, const Override& override, std::size_t depth) {
  const std::string& step = override.path[depth];
  if (toml::table* table = parent.as_table()) {
    if (toml::node* child = table->get(step)) return *child;
    toml::table made = parse_value(override, "{}");
    toml::node& empty = *made.get("value");
    return table->insert_or_assign(toml::key(step, empty.source()), std::move(*empty.as_table())).first->second;
  }
  toml::array* array = parent.as_array();
  if (array == nullptr) fail(override, fmt::format("'{}' is not a table, so it has no keys", override.path[depth - 1]));
  toml::node* child = element(*array, step);
  if (child == nullptr) {
    fail(override,
         fmt::format("'{}' is not an element of '{}', which has {}, numbered from 0", step, override.path[depth - 1],
                     count_of(static_cast<std::int64_t>(array->size()), "element")));
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
    fail(override, fmt::format("'{}' is not a table, so it has no keys", override.path[override.path.size() - 2]));
  }
}

}  // namespace

std::string place(const toml::source_region& region, const std::string& file) {
  if (region.path && region.path->starts_with(kSet)) return *region.path;
  if (!region.begin) return file;
  return fmt::format("{}:{}:{}", file, region.begin.line, region.begin.column);
}

bool is_override(const toml::node& node) {
  if (node.source().path && node.source().path->starts_with(kSet)) return true;
  const auto within = [](const auto& children) {
    return std::any_of(children.begin(), children.end(), [](const auto& child) { return is_override(child); });
  };
  if (const toml::array* array = node.as_array()) return within(*array);
  const toml::table* table = node.as_table();
  return table != nullptr &&
         std::any_of(table->begin(), table->end(), [](const auto& entry) { return is_override(entry.second); });
}

LoadedTable load_table(const ConfigText& config) {
  LoadedTable loaded{.table = parse(config.text, config.path), .file = {}};
  remove_all(loaded.table, config.removals);
  loaded.file = loaded.table;
  for (const std::string& text : config.overrides) apply(loaded.table, split(text));
  return loaded;
}

}  // namespace detail
}  // namespace unisono
