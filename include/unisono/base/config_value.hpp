#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace unisono {

/// A value of a config whose form is not declared: of a key such as search.space, whose own keys are those of other
/// tables. Tables keep the order of the file.
struct ConfigValue {
  using Array = std::vector<ConfigValue>;
  struct Entry;
  using Table = std::vector<Entry>;

  std::variant<Table, Array, bool, std::int64_t, double, std::string> value;  ///< default: an empty table
  std::string place = {};  ///< "configs/search.toml:14:3", for messages

  bool operator==(const ConfigValue& other) const;  ///< wherever it stands
  const Table* table() const { return std::get_if<Table>(&value); }
  const Array* array() const { return std::get_if<Array>(&value); }
  /// The value of a key; null where this is no table or has no such key.
  const ConfigValue* find(const std::string& key) const;
  /// An integer or a floating-point number; nothing where it is neither.
  std::optional<double> number() const;
};

struct ConfigValue::Entry {
  std::string key;
  ConfigValue value;
  bool operator==(const Entry&) const = default;
};

/// A key as it is written in TOML: in quotes where it needs them.
std::string toml_key(const std::string& key);

/// The value as TOML on one line: `{ kind = "sgd", momentum = 0.9 }`. Parsing it gives the same value.
std::string toml_text(const ConfigValue& value);

}  // namespace unisono
