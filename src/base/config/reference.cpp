#include "config/reference.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "config/detail.hpp"

namespace unisono::detail {
namespace {

std::string type_of(const bool&) { return "boolean"; }
std::string type_of(const std::int64_t&) { return "integer"; }
std::string type_of(const double&) { return "number"; }
std::string type_of(const std::string&) { return "string"; }
template <typename T>
std::string type_of(const std::vector<T>&) {
  return type_of(T{}) + " or list";
}

/// An array of tables that is being described, to end where its elements hold arrays of their own kind.
struct OpenList {
  std::vector<std::string> names;  ///< of an element's keys
  std::string path;

  bool has(const std::vector<std::string>& others) const {
    return std::all_of(others.begin(), others.end(), [this](const auto& other) {
      return std::find(names.begin(), names.end(), other) != names.end();
    });
  }
};

class Collector final : public UniformVisitor<Collector> {
 public:
  Collector(ReferenceTable& table, std::string path, std::vector<OpenList> lists = {})
      : table_(table), path_(std::move(path)), lists_(std::move(lists)) {}

  template <typename T>
  void any(const Field& field, T& value) {
    add(make_key(field, type_of(value), toml_text(value)));
  }
  void number_or(const Field& field, std::int64_t& value, const Choice& word) override {
    ReferenceKey key = make_key(field, "integer or string", toml_text(value, field, word));
    key.choices.emplace_back(word.name, word.meaning);
    add(std::move(key));
  }
  void numbers_or(const Field& field, std::vector<double>& values, std::string& word,
                  const std::vector<Choice>& words) override {
    add_choice(make_key(field, "string or list of numbers", values.empty() ? toml_text(word) : toml_text(values)),
               words);
  }
  void any_value(const Field& field, ConfigValue& value) override {
    add(make_key(field, value.table() ? "table" : value.array() ? "array" : "any value", toml_text(value)));
  }
  void choice(const Field& field, std::string& value, const std::vector<Choice>& choices) override {
    add_choice(make_key(field, "string", toml_text(value)), choices);
  }
  void variant(const Field& field, std::string& value, const std::vector<Variant>& variants) override;
  void section(const Field& field, const std::function<void(ConfigVisitor&)>& describe) override {
    const std::string path = join_path(path_, field.name);
    table_.tables.push_back({fmt::format("[{}]", path), std::string(field.meaning), kinds_, {}, {}});
    Collector inner(table_.tables.back(), path, lists_);
    describe(inner);
  }
  void list(const Field& field, std::size_t size, const std::function<void(std::size_t)>& resize,
            const std::function<void(std::size_t, ConfigVisitor&)>& describe) override;
  void require(std::string_view, bool, std::string_view) override {}

 private:
  static ReferenceKey make_key(const Field& field, std::string type, std::string value) {
    Field without_unit = field;
    without_unit.unit = "";
    return {.name = std::string(field.name),
            .type = std::move(type),
            .meaning = std::string(field.meaning),
            .unit = std::string(field.unit),
            .range = range_text(without_unit),
            .value = field.required ? "" : std::move(value),
            .choices = {},
            .kinds = {}};
  }
  void add(ReferenceKey key);
  void add_choice(ReferenceKey key, const std::vector<Choice>& choices) {
    for (const Choice& choice : choices) key.choices.emplace_back(choice.name, choice.meaning);
    add(std::move(key));
  }

  ReferenceTable& table_;
  std::string path_;
  std::vector<OpenList> lists_;
  std::vector<std::string> kinds_;  ///< the variant that is being described
};

/// A key that several kinds share stands there once.
void Collector::add(ReferenceKey key) {
  key.kinds = kinds_;
  const auto same = std::find_if(table_.keys.begin(), table_.keys.end(), [&](const ReferenceKey& other) {
    return other.name == key.name && other.meaning == key.meaning && other.range == key.range &&
           other.value == key.value && other.type == key.type;
  });
  if (same == table_.keys.end()) {
    table_.keys.push_back(std::move(key));
  } else {
    same->kinds.insert(same->kinds.end(), key.kinds.begin(), key.kinds.end());
  }
}

void Collector::variant(const Field& field, std::string& value, const std::vector<Variant>& variants) {
  ReferenceKey key = make_key(field, "string", toml_text(value));
  for (const Variant& variant : variants) key.choices.emplace_back(variant.name, variant.meaning);
  add(std::move(key));
  for (const Variant& variant : variants) {
    if (!variant.describe) continue;
    const std::vector<std::string> outer = std::exchange(kinds_, {std::string(variant.name)});
    variant.describe(*this);
    kinds_ = outer;
  }
}

void Collector::list(const Field& field, std::size_t size, const std::function<void(std::size_t)>& resize,
                     const std::function<void(std::size_t, ConfigVisitor&)>& describe) {
  resize(size + 1);  // a new element, which holds the defaults
  NameCollector names;
  describe(size, names);
  const auto open =
      std::find_if(lists_.begin(), lists_.end(), [&](const OpenList& list) { return list.has(names.names); });
  if (open != lists_.end()) {
    add(make_key(field, fmt::format("array of tables like {}", open->path), "[]"));
  } else {
    const std::string path = join_path(path_, field.name);
    add(make_key(field, "array of tables", "[]"));
    table_.tables.push_back({fmt::format("[[{}]]", path), std::string(field.meaning), kinds_, {}, {}});
    std::vector<OpenList> lists = lists_;
    lists.push_back({names.names, path});
    Collector inner(table_.tables.back(), path, std::move(lists));
    describe(size, inner);
  }
  resize(size);
}

}  // namespace

ReferenceTable collect_reference(const Describe& describe) {
  ReferenceTable table;
  Collector collector(table, "");
  describe(collector);
  return table;
}

}  // namespace unisono::detail

namespace unisono {
namespace {

using detail::ReferenceKey;
using detail::ReferenceTable;

/// "integer, at least 1, steps"
std::string type_range_unit(const ReferenceKey& key) {
  return key.type + (key.range.empty() ? "" : ", " + key.range) + (key.unit.empty() ? "" : " (" + key.unit + ")");
}

std::string as_text(const ReferenceTable& table) {
  std::string text;
  if (!table.title.empty()) text += fmt::format("\n{}  {}\n", table.title, table.meaning);
  for (const ReferenceKey& key : table.keys) {
    text += fmt::format("  {}{}\n      {}: {}\n", key.name, key.value.empty() ? ", required" : " = " + key.value,
                        type_range_unit(key), key.meaning);
    if (!key.kinds.empty()) text += fmt::format("      only for {}\n", fmt::join(key.kinds, ", "));
    for (const auto& [name, meaning] : key.choices) text += fmt::format("        {:20}  {}\n", name, meaning);
  }
  for (const ReferenceTable& inner : table.tables) text += as_text(inner);
  return text;
}

/// Text for a cell of a Markdown table.
std::string cell(std::string text) {
  for (std::size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) text.insert(at, "\\");
  return text;
}

std::string markdown_row(const ReferenceKey& key) {
  std::string meaning = cell(key.meaning);
  if (!key.kinds.empty()) meaning += fmt::format(" (only for `{}`)", fmt::join(key.kinds, "`, `"));
  for (const auto& [name, about] : key.choices) meaning += fmt::format("<br>`{}`: {}", name, cell(about));
  return fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", key.name, meaning, key.type, key.unit,
                     key.value.empty() ? "required" : "`" + cell(key.value) + "`", key.range);
}

std::string as_markdown(const ReferenceTable& table) {
  std::string text;
  if (!table.title.empty()) {
    text += fmt::format("\n## `{}`\n\n{}", table.title, table.meaning);
    if (!table.kinds.empty()) text += fmt::format(" (only for `{}`)", fmt::join(table.kinds, "`, `"));
    text += ".\n";
  }
  if (!table.keys.empty()) text += "\n| key | meaning | type | unit | default | range |\n|---|---|---|---|---|---|\n";
  for (const ReferenceKey& key : table.keys) text += markdown_row(key);
  for (const ReferenceTable& inner : table.tables) text += as_markdown(inner);
  return text;
}

}  // namespace

std::string config_reference(const Describe& describe, ReferenceFormat format) {
  const ReferenceTable table = detail::collect_reference(describe);
  return format == ReferenceFormat::text ? as_text(table) : as_markdown(table);
}

namespace {

using namespace detail;

/// Collects one table's keys and values; subtables come after them, as TOML demands.
class Writer final : public UniformVisitor<Writer> {
 public:
  /// \param depth of the arrays around this table, for indentation
  explicit Writer(std::size_t depth = 0) : depth_(depth) {}

  template <typename T>
  void any(const Field& field, T& value) {
    values_.emplace_back(field.name, toml_text(value));
  }
  void number_or(const Field& field, std::int64_t& value, const Choice& word) override {
    values_.emplace_back(field.name, toml_text(value, field, word));
  }
  void numbers_or(const Field& field, std::vector<double>& values, std::string& word,
                  const std::vector<Choice>&) override {
    values_.emplace_back(field.name, values.empty() ? toml_text(word) : toml_text(values));
  }
  void any_value(const Field& field, ConfigValue& value) override {
    if (value.table() == nullptr) {
      values_.emplace_back(field.name, toml_text(value));
      return;
    }
    Writer inner(depth_);
    for (const auto& [key, content] : *value.table()) inner.values_.emplace_back(toml_key(key), toml_text(content));
    tables_.emplace_back(field.name, std::move(inner));
  }
  void choice(const Field& field, std::string& value, const std::vector<Choice>&) override { any(field, value); }
  void variant(const Field& field, std::string& value, const std::vector<Variant>& variants) override {
    any(field, value);
    for (const Variant& variant : variants) {
      if (variant.name == value && variant.describe) variant.describe(*this);
    }
  }
  void section(const Field& field, const std::function<void(ConfigVisitor&)>& describe) override {
    Writer inner(depth_);
    describe(inner);
    tables_.emplace_back(field.name, std::move(inner));
  }
  void list(const Field& field, std::size_t size, const std::function<void(std::size_t)>&,
            const std::function<void(std::size_t, ConfigVisitor&)>& describe) override {
    std::string text;
    for (std::size_t i = 0; i < size; ++i) {
      Writer inner(depth_ + 1);
      describe(i, inner);
      text += fmt::format("{:{}}{},\n", "", 2 * (depth_ + 1), inner.as_inline());
    }
    values_.emplace_back(field.name, size == 0 ? "[]" : fmt::format("[\n{}{:{}}]", text, "", 2 * depth_));
  }
  void require(std::string_view, bool, std::string_view) override {}

  /// As a table of its own: "[path]" and a line for each key.
  std::string as_table(const std::string& path) const {
    std::string text;
    if (!path.empty() && !values_.empty()) text += fmt::format("\n[{}]\n", path);
    for (const auto& [name, value] : values_) text += fmt::format("{} = {}\n", name, value);
    for (const auto& [name, table] : tables_) text += table.as_table(join_path(path, name));
    return text;
  }

 private:
  std::string as_inline() const {
    std::string text;
    for (const auto& [name, value] : values_) text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", name, value);
    for (const auto& [name, table] : tables_) {
      text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", name, table.as_inline());
    }
    return text.empty() ? "{}" : "{ " + text + " }";
  }

  std::size_t depth_;
  std::vector<std::pair<std::string, std::string>> values_;
  std::vector<std::pair<std::string, Writer>> tables_;
};

}  // namespace

std::string effective_config(const Describe& describe) {
  Writer writer;
  describe(writer);
  return writer.as_table("");
}

}  // namespace unisono
