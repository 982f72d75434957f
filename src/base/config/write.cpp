#include <fmt/format.h>

#include <utility>

#include "config/detail.hpp"

namespace unisono {
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
