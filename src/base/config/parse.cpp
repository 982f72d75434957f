#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "config/detail.hpp"
#include "config/reference.hpp"
#include "config/toml.hpp"
#include "unisono/base/config.hpp"
#include "unisono/base/errors.hpp"

namespace unisono {
namespace {

using namespace detail;

/// "a table", "the string 'x'", "an integer"
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

// Suggestions for an unknown key: known keys of the whole config, found by the last part of their path. For
// "learning_rate" that is "optimizer.learning_rate"; a key of an array's elements reads "model.layers.N.units". All
// return nothing where more than four keys fit: too many to be of help.

constexpr std::size_t kMostHelpful = 4;

/// "[train]" as "train", "[[model.layers]]" as "model.layers.N".
std::string path_of(const ReferenceTable& table) {
  const std::size_t brackets = table.title.starts_with("[[") ? 2 : table.title.empty() ? 0 : 1;
  const std::string path = table.title.substr(brackets, table.title.size() - 2 * brackets);
  return brackets == 2 ? path + ".N" : path;
}

void collect(const ReferenceTable& table, std::vector<std::string>& paths) {
  const std::string path = path_of(table);
  if (!path.empty()) paths.push_back(path);
  for (const ReferenceKey& key : table.keys) paths.push_back(join_path(path, key.name));
  for (const ReferenceTable& inner : table.tables) collect(inner, paths);
}

std::vector<std::string> all_paths(const Describe& describe) {
  std::vector<std::string> paths;
  collect(collect_reference(describe), paths);
  return paths;
}

std::string last_part(const std::string& path) { return path.substr(path.rfind('.') + 1); }

std::vector<std::string> ending_in(std::string_view name, const std::vector<std::string>& paths) {
  std::vector<std::string> found;
  for (const std::string& path : paths) {
    if (last_part(path) == name && std::find(found.begin(), found.end(), path) == found.end()) found.push_back(path);
  }
  if (found.size() > kMostHelpful) found.clear();
  return found;
}

/// The keys whose last part is `name`.
std::vector<std::string> keys_called(std::string_view name, const Describe& describe) {
  return ending_in(name, all_paths(describe));
}

/// The keys whose last part is nearest to a mistyped one; none where none is near.
std::vector<std::string> keys_like(std::string_view name, const Describe& describe) {
  const std::vector<std::string> paths = all_paths(describe);
  std::vector<std::string> names;
  for (const std::string& path : paths) names.push_back(last_part(path));
  const std::string nearest = nearest_name(name, names);
  return nearest.empty() ? std::vector<std::string>() : ending_in(nearest, paths);
}

template <typename T>
std::string_view wanted_type() {
  if (std::is_same_v<T, bool>) return "true or false";
  return std::is_same_v<T, std::int64_t> ? "an integer" : "a string";
}

/// What the parsers of all tables share.
struct Parsing {
  const std::string& file;
  const Describe& root;                      ///< of all keys
  std::optional<std::string> deferred = {};  ///< the first message about a missing key or a broken rule
  std::vector<std::string> notes = {};
};

/// Fills one table. Wrong values and unknown keys are reported at once; the first thing that is missing or breaks a
/// rule only when all tables are read, because a mistyped key is the likelier cause.
class Parser final : public UniformVisitor<Parser> {
 public:
  /// \param before the same table without overrides; null where the file has none such
  Parser(const toml::table& table, const toml::table* before, std::string path, Parsing& shared)
      : table_(table), before_(before), file_(shared.file), path_(std::move(path)), shared_(shared) {}

  template <typename T>
  void any(const Field& field, T& value) {
    if (const toml::node* node = find(field)) value = read<T>(field, *node);
  }
  template <typename T>
  void any(const Field& field, std::vector<T>& values) {
    const toml::node* node = find(field);
    if (node == nullptr) return;
    values.clear();
    if (const toml::array* array = node->as_array()) {
      if (field.required && array->empty()) fail(*node, field, "must not be empty");
      for (const toml::node& element : *array) values.push_back(read<T>(field, element));
    } else {
      values.push_back(read<T>(field, *node));
    }
  }

  void number_or(const Field& field, std::int64_t& value, const Choice& word) override;
  void numbers_or(const Field& field, std::vector<double>& values, std::string& word,
                  const std::vector<Choice>& words) override;
  void any_value(const Field& field, ConfigValue& value) override {
    if (const toml::node* node = find(field)) value = config_value(*node, file_);
  }
  void choice(const Field& field, std::string& value, const std::vector<Choice>& choices) override {
    choose(field, value, names_of(choices));
  }
  void variant(const Field& field, std::string& value, const std::vector<Variant>& variants) override;
  void section(const Field& field, const std::function<void(ConfigVisitor&)>& describe) override;
  void list(const Field& field, std::size_t size, const std::function<void(std::size_t)>& resize,
            const std::function<void(std::size_t, ConfigVisitor&)>& describe) override;
  void require(std::string_view field, bool holds, std::string_view message) override;
  void refuse(std::string_view field, std::string_view reason) override;

  void refuse_unknown_keys() const;

 private:
  const toml::node* find(const Field& field);
  template <typename T>
  T read(const Field& field, const toml::node& node) const;
  void check_range(const Field& field, const toml::node& node, double value) const;
  bool choose(const Field& field, std::string& value, const std::vector<std::string>& names);
  void leave_out(const Field& field, const std::string& otherwise, const std::vector<Variant>& variants);
  std::string unknown(const std::string& key) const;
  std::string at(const toml::node& node) const { return place(node.source(), file_); }
  [[noreturn]] void fail(const toml::node& node, const Field& field, const std::string& problem) const {
    throw ConfigError(fmt::format("{}: '{}'{} {}", at(node), field.name, in_table(path_), problem));
  }

  const toml::table& table_;
  const toml::table* before_;
  const std::string& file_;
  std::string path_;
  std::set<std::string, std::less<>> known_;
  std::set<std::string, std::less<>> left_out_;  ///< keys of the file's kind only, where an override chose another
  /// A key that other kinds have.
  struct Elsewhere {
    std::string kind;  ///< the one that is chosen: "kind 'max_pool'"
    std::vector<std::string> kinds;
  };
  std::map<std::string, Elsewhere, std::less<>> elsewhere_;
  Parsing& shared_;
};

const toml::node* Parser::find(const Field& field) {
  known_.emplace(field.name);
  const toml::node* node = table_.get(field.name);
  if (node == nullptr && field.required && !shared_.deferred) {
    const std::string range = range_text(field);
    shared_.deferred = fmt::format("{}: missing key '{}'{}: {}{}", at(table_), field.name, in_table(path_),
                                   field.meaning, range.empty() ? "" : ", " + range);
  }
  return node;
}

template <typename T>
T Parser::read(const Field& field, const toml::node& node) const {
  if constexpr (std::is_same_v<T, double>) {
    if (!node.is_number()) fail(node, field, fmt::format("must be a number, not {}", type_name(node)));
    const double value = *node.value<double>();
    check_range(field, node, value);
    return value;
  } else {
    const std::optional<T> value = node.value_exact<T>();
    if (!value) fail(node, field, fmt::format("must be {}, not {}", wanted_type<T>(), type_name(node)));
    if constexpr (std::is_same_v<T, std::int64_t>) check_range(field, node, static_cast<double>(*value));
    return *value;
  }
}

void Parser::check_range(const Field& field, const toml::node& node, double value) const {
  if (!std::isfinite(value)) fail(node, field, fmt::format("is {}, but must be a finite number", value));
  if (!in_range(field, value)) fail(node, field, fmt::format("is {}, but must be {}", value, range_text(field)));
}

/// \return whether the text has the key
bool Parser::choose(const Field& field, std::string& value, const std::vector<std::string>& names) {
  const toml::node* node = find(field);
  if (node == nullptr) return false;
  value = read<std::string>(field, *node);
  if (std::find(names.begin(), names.end(), value) != names.end()) return true;
  const std::string nearest = nearest_name(value, names);
  const std::string hint = nearest.empty() ? "it" : fmt::format("did you mean '{}'? It", nearest);
  fail(*node, field, fmt::format("is '{}', which does not exist; {} is one of {}", value, hint, quoted(names)));
}

void Parser::number_or(const Field& field, std::int64_t& value, const Choice& word) {
  const toml::node* node = find(field);
  if (node == nullptr) return;
  const auto text = node->value_exact<std::string>();
  if (!text && !node->is_integer()) {
    fail(*node, field, fmt::format("must be an integer or '{}', not {}", word.name, type_name(*node)));
  }
  if (text && *text != word.name) {
    fail(*node, field, fmt::format("is '{}', but must be an integer or '{}'", *text, word.name));
  }
  value = text ? value_of_word(field) : read<std::int64_t>(field, *node);
}

void Parser::numbers_or(const Field& field, std::vector<double>& values, std::string& word,
                        const std::vector<Choice>& words) {
  const toml::node* node = find(field);
  if (node == nullptr) return;
  if (node->is_string()) {
    values.clear();
    choose(field, word, names_of(words));
    return;
  }
  any(field, values);
  if (values.empty()) fail(*node, field, fmt::format("is empty; use numbers, or one of {}", quoted(names_of(words))));
}

void Parser::variant(const Field& field, std::string& value, const std::vector<Variant>& variants) {
  const std::string otherwise = value;
  const bool missing = !choose(field, value, names_of(variants)) && field.required;
  for (const Variant& variant : variants) {
    if (!variant.describe) continue;
    if (!missing && variant.name == value) {
      variant.describe(*this);
      continue;
    }
    NameCollector collector;
    variant.describe(collector);
    for (const std::string& name : collector.names) {
      Elsewhere& elsewhere = elsewhere_[name];
      elsewhere.kind = fmt::format("{} '{}'", field.name, value);
      elsewhere.kinds.emplace_back(variant.name);
    }
  }
  if (missing) {  // nobody knows which keys belong here
    for (const auto& [name, elsewhere] : elsewhere_) known_.insert(name);
  }
  leave_out(field, otherwise, variants);
}

/// Where an override chose the kind: what the file says for its own kind alone. \param otherwise the default
void Parser::leave_out(const Field& field, const std::string& otherwise, const std::vector<Variant>& variants) {
  const toml::node* const chosen = table_.get(field.name);
  if (before_ == nullptr || chosen == nullptr || !is_override(*chosen)) return;
  const toml::node* const given = before_->get(field.name);
  const std::string before = given == nullptr ? otherwise : given->value_or(otherwise);
  const auto own = std::find_if(variants.begin(), variants.end(), [&](const auto& one) { return one.name == before; });
  if (own == variants.end() || !own->describe) return;
  NameCollector collector;
  own->describe(collector);
  std::vector<std::string> names;
  for (const std::string& name : collector.names) {
    const toml::node* node = table_.get(name);
    if (node == nullptr || known_.contains(name) || is_override(*node)) continue;
    if (left_out_.insert(name).second) names.push_back(name);
  }
  if (names.empty()) return;
  shared_.notes.push_back(fmt::format("{}: {} of the file's {} {} dropped", at(*chosen), fmt::join(names, ", "), before,
                                      names.size() == 1 ? "is" : "are"));
}

void Parser::section(const Field& field, const std::function<void(ConfigVisitor&)>& describe) {
  const toml::node* node = find(field);
  const toml::table empty;
  const toml::table* table = node == nullptr ? &empty : node->as_table();
  if (table == nullptr) fail(*node, field, fmt::format("must be a table, not {}", type_name(*node)));
  const toml::table* before = before_ == nullptr ? nullptr : (*before_)[field.name].as_table();
  Parser inner(*table, before, join_path(path_, field.name), shared_);
  describe(inner);
  inner.refuse_unknown_keys();
}

void Parser::list(const Field& field, std::size_t, const std::function<void(std::size_t)>& resize,
                  const std::function<void(std::size_t, ConfigVisitor&)>& describe) {
  const toml::node* node = find(field);
  if (node == nullptr) return;
  const toml::array* array = node->as_array();
  if (array == nullptr) fail(*node, field, fmt::format("must be an array of tables, not {}", type_name(*node)));
  const toml::array* before = before_ == nullptr ? nullptr : (*before_)[field.name].as_array();
  resize(0);  // elements begin with their defaults
  resize(array->size());
  for (std::size_t i = 0; i < array->size(); ++i) {
    const toml::node& element = *array->get(i);
    if (!element.is_table()) {
      fail(element, field, fmt::format("must be an array of tables, but element {} is {}", i, type_name(element)));
    }
    const toml::node* same = before == nullptr ? nullptr : before->get(i);
    Parser inner(*element.as_table(), same == nullptr ? nullptr : same->as_table(),
                 fmt::format("{}[{}]", join_path(path_, field.name), i), shared_);
    describe(i, inner);
    inner.refuse_unknown_keys();
  }
}

void Parser::require(std::string_view field, bool holds, std::string_view message) {
  if (holds || shared_.deferred) return;
  const toml::node* node = table_.get(field);
  shared_.deferred = fmt::format("{}:{}: {}", at(node == nullptr ? table_ : *node), in_table(path_), message);
}

void Parser::refuse(std::string_view field, std::string_view reason) {
  known_.emplace(field);
  require(field, !table_.contains(field), fmt::format("'{}' {}", field, reason));
}

std::string Parser::unknown(const std::string& key) const {
  const auto elsewhere = elsewhere_.find(key);
  if (elsewhere != elsewhere_.end()) {
    return fmt::format("; {} has no such key, it is a key of {}", elsewhere->second.kind,
                       quoted(elsewhere->second.kinds));
  }
  const auto did_you_mean = [](const std::vector<std::string>& keys) {
    return fmt::format("; did you mean '{}'?", fmt::join(keys, "' or '"));
  };
  const auto elsewhere_than_here = [&](std::vector<std::string> keys) {
    std::erase(keys, join_path(path_, key));  // which another kind has
    return keys;
  };
  const std::vector<std::string> known(known_.begin(), known_.end());
  const auto same = elsewhere_than_here(keys_called(key, shared_.root));
  if (same == std::vector{key}) {
    return fmt::format("; did you mean '{}' at the top level? Known here: {}", key, quoted(known));
  }
  const std::string nearest = nearest_name(key, known);
  const bool has_other_ending = !nearest.empty() && (nearest.starts_with(key) || key.starts_with(nearest));
  if (!same.empty() && !has_other_ending) return did_you_mean(same);
  if (!nearest.empty()) return did_you_mean({nearest});
  const auto similar = elsewhere_than_here(keys_like(key, shared_.root));
  return similar.empty() ? fmt::format("; known here: {}", quoted(known)) : did_you_mean(similar);
}

void Parser::refuse_unknown_keys() const {
  for (const auto& [key, node] : table_) {
    const std::string name(key.str());
    if (known_.contains(name) || left_out_.contains(name)) continue;
    const toml::source_region& source = is_override(node) ? node.source() : key.source();
    throw ConfigError(
        fmt::format("{}: unknown key '{}'{}{}", place(source, file_), name, in_table(path_), unknown(name)));
  }
}

}  // namespace

std::vector<std::string> parse_config(const ConfigText& config, const Describe& describe) {
  const LoadedTable loaded = load_table(config);
  Parsing shared{.file = config.path, .root = describe};
  Parser parser(loaded.table, &loaded.file, "", shared);
  describe(parser);
  parser.refuse_unknown_keys();
  if (shared.deferred) throw ConfigError(*shared.deferred);
  return shared.notes;
}

}  // namespace unisono
