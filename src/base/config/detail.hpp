#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/toml.hpp"
#include "unisono/base/config.hpp"

namespace unisono::detail {

/// "train.epochs"
std::string join_path(std::string_view table, std::string_view name);

/// " in [train]", " in model.layers[2]", " at the top level"
std::string in_table(std::string_view path);

/// Whether a number lies in a field's range.
bool in_range(const Field& field, double value);

/// "at least 0 and below 1"; empty where every number is allowed.
std::string range_text(const Field& field);

/// "'a', 'b', 'c'"
std::string quoted(const std::vector<std::string>& names);

/// The number for which a word stands, see ConfigVisitor::number_or.
std::int64_t value_of_word(const Field& field);
/// As TOML: a number, or the word that stands for one.
std::string toml_text(std::int64_t value, const Field& field, const Choice& word);

/// As TOML: "0.001", "3.0", "\"text\"", "[1, 2]".
std::string toml_text(bool value);
std::string toml_text(std::int64_t value);
std::string toml_text(double value);
std::string toml_text(const std::string& value);
template <typename T>
std::string toml_text(const std::vector<T>& values) {
  std::string text;
  for (const T& value : values) text += (text.empty() ? "" : ", ") + toml_text(value);
  return "[" + text + "]";
}

template <typename Named>
std::vector<std::string> names_of(const std::vector<Named>& items) {
  std::vector<std::string> names;
  for (const Named& item : items) names.emplace_back(item.name);
  return names;
}

/// A visitor that treats scalars and lists of all types alike: it calls Derived::any(field, value) for each.
template <typename Derived>
class UniformVisitor : public ConfigVisitor {
 public:
  void field(const Field& field, bool& value) override { self().any(field, value); }
  void field(const Field& field, std::int64_t& value) override { self().any(field, value); }
  void field(const Field& field, double& value) override { self().any(field, value); }
  void field(const Field& field, std::string& value) override { self().any(field, value); }
  void field(const Field& field, std::vector<std::int64_t>& value) override { self().any(field, value); }
  void field(const Field& field, std::vector<double>& value) override { self().any(field, value); }
  void field(const Field& field, std::vector<std::string>& value) override { self().any(field, value); }

 private:
  Derived& self() { return static_cast<Derived&>(*this); }
};

/// The names of a table's own keys, those of all variants included.
class NameCollector final : public UniformVisitor<NameCollector> {
 public:
  template <typename T>
  void any(const Field& field, T&) {
    names.emplace_back(field.name);
  }
  void number_or(const Field& field, std::int64_t&, const Choice&) override { names.emplace_back(field.name); }
  void numbers_or(const Field& field, std::vector<double>&, std::string&, const std::vector<Choice>&) override {
    names.emplace_back(field.name);
  }
  void any_value(const Field& field, ConfigValue&) override { names.emplace_back(field.name); }
  void choice(const Field& field, std::string&, const std::vector<Choice>&) override { names.emplace_back(field.name); }
  void variant(const Field& field, std::string&, const std::vector<Variant>& variants) override {
    names.emplace_back(field.name);
    for (const Variant& variant : variants) {
      if (variant.describe) variant.describe(*this);
    }
  }
  void section(const Field& field, const std::function<void(ConfigVisitor&)>&) override {
    names.emplace_back(field.name);
  }
  void list(const Field& field, std::size_t, const std::function<void(std::size_t)>&,
            const std::function<void(std::size_t, ConfigVisitor&)>&) override {
    names.emplace_back(field.name);
  }
  void require(std::string_view, bool, std::string_view) override {}

  std::vector<std::string> names;
};

struct LoadedTable {
  toml::table table;  ///< the config's text without what was removed, with its overrides put in
  toml::table file;   ///< the same without overrides; its nodes have no source location
};

/// \throws ConfigError
LoadedTable load_table(const ConfigText& config);

/// Whether a value, or something in it, was given by --set.
bool is_override(const toml::node& node);

/// "configs/lenet.toml:14:3", "--set train.epochs=3", or the file alone for a node without a source location.
std::string place(const toml::source_region& region, const std::string& file);

/// A node with all that is in it, and the place of each value. Tables are in the order of the file, overrides last.
/// \throws ConfigError for a date or time
ConfigValue config_value(const toml::node& node, const std::string& file);

}  // namespace unisono::detail
