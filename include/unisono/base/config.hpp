#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <variant>
#include <vector>

// A settings struct is declared once: its `describe` names each field, what it means, its unit and its range. The
// struct's own member initialisers are the defaults. Visitors parse a TOML file into it, write the effective config,
// and print the reference.
//
//   struct TrainSettings {
//     std::int64_t epochs = 10;
//     double label_smoothing = 0.0;
//     void describe(ConfigVisitor& visitor) {
//       visitor.field({.name = "epochs", .meaning = "passes over the training set", .range = at_least(1)}, epochs);
//       visitor.field({.name = "label_smoothing", .meaning = "share of the target spread over all classes",
//                      .range = at_least(0).below(1)}, label_smoothing);
//     }
//   };
namespace unisono {

/// A value of a config whose form is not declared, e.g. that of search.space, whose keys are those of other tables.
/// Tables keep the order of the file.
struct ConfigValue {
  using Array = std::vector<ConfigValue>;
  struct Entry;
  using Table = std::vector<Entry>;

  std::variant<Table, Array, bool, std::int64_t, double, std::string> value;  ///< default: an empty table
  std::string place = {};  ///< "configs/search.toml:14:3", for messages

  bool operator==(const ConfigValue& other) const;  ///< whether the values are equal, wherever they stand
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

/// The numbers that a key may have: `at_least(0).below(1)`, `above(0)`.
struct NumberRange {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool above_least = false;  ///< `least` itself is not allowed
  bool below_most = false;

  constexpr NumberRange at_most(double bound) const { return {least, bound, above_least, false}; }
  constexpr NumberRange below(double bound) const { return {least, bound, above_least, true}; }
};
constexpr NumberRange at_least(double bound) { return {.least = bound}; }
constexpr NumberRange above(double bound) { return {.least = bound, .above_least = true}; }

/// Declares one key of the config: its name, its documentation and its range.
struct Field {
  std::string_view name;
  std::string_view meaning;
  std::string_view unit = "";
  NumberRange range = {};
  bool required = false;  ///< whether the key has no default, so that leaving it out is an error
};

/// One allowed value of a `choice` field.
struct Choice {
  std::string_view name;
  std::string_view meaning;
};

/// One value of an option that is an `enum class`, with its name in the config. An option needs one table of `Named`
/// values:
///
///   enum class Locking { none, striped };
///   inline constexpr Named<Locking> kLockings[] = {{Locking::none, "none", "nothing"},
///                                                  {Locking::striped, "striped", "the rows that the example
///                                                  touches"}};
///   visitor.choice({.name = "locking", .meaning = "what a thread locks"}, settings.locking, kLockings);
template <typename Enum>
struct Named {
  Enum value;
  std::string_view name;
  std::string_view meaning;
};

/// A table of names, e.g. an array. It takes no part in template argument deduction: the other argument decides `Enum`.
template <typename Enum>
using NamesOf = std::span<const std::type_identity_t<Named<Enum>>>;

/// The name of a value; empty where the table lacks it.
template <typename Enum>
constexpr std::string_view name_of(Enum value, NamesOf<Enum> names) {
  for (const auto& one : names) {
    if (one.value == value) return one.name;
  }
  return {};
}

class ConfigVisitor;

/// One value of a `kind` key, with the fields that exist only for this kind.
struct Variant {
  std::string_view name;
  std::string_view meaning;
  std::function<void(ConfigVisitor&)> describe = {};
};

/// Is given every field of a settings struct by its `describe`. Implementations parse TOML, write the effective config,
/// and print the reference.
class ConfigVisitor {
 public:
  virtual ~ConfigVisitor() = default;

  virtual void field(const Field& field, bool& value) = 0;
  virtual void field(const Field& field, std::int64_t& value) = 0;
  virtual void field(const Field& field, double& value) = 0;
  virtual void field(const Field& field, std::string& value) = 0;
  // A config may give a single value for a list of one element: kernel = 5.
  virtual void field(const Field& field, std::vector<std::int64_t>& value) = 0;
  virtual void field(const Field& field, std::vector<double>& value) = 0;
  virtual void field(const Field& field, std::vector<std::string>& value) = 0;

  /// A number, or a word that stands for 0 or, where 0 is an allowed number (field.range.least is 0), for −1.
  virtual void number_or(const Field& field, std::int64_t& value, const Choice& word) = 0;

  /// A list of numbers, or a word out of a fixed set. The word applies if the list is empty.
  virtual void numbers_or(const Field& field, std::vector<double>& values, std::string& word,
                          const std::vector<Choice>& words) = 0;

  /// A value of any form, with all that is in it, for a key whose own keys are not declared.
  virtual void any_value(const Field& field, ConfigValue& value) = 0;

  /// A string out of a fixed set.
  virtual void choice(const Field& field, std::string& value, const std::vector<Choice>& choices) = 0;

  /// A string out of a fixed set that decides which further fields there are. A parser visits the fields of the chosen
  /// string; the reference visits all of them.
  virtual void variant(const Field& field, std::string& value, const std::vector<Variant>& variants) = 0;

  /// A choice that is an enum.
  template <typename Enum>
  requires std::is_enum_v<Enum>
  void choice(const Field& field, Enum& value, NamesOf<Enum> names) {
    std::string name(name_of(value, names));
    choice(field, name, choices_of(names));
    take(name, names, value);
  }

  /// A list of numbers, or a word that is an enum.
  template <typename Enum>
  requires std::is_enum_v<Enum>
  void numbers_or(const Field& field, std::vector<double>& values, Enum& word, NamesOf<Enum> names) {
    std::string name(name_of(word, names));
    numbers_or(field, values, name, choices_of(names));
    take(name, names, word);
  }

  /// A variant that is an enum. \param fields describes the further fields of each value that has some
  template <typename Enum>
  requires std::is_enum_v<Enum>
  void variant(const Field& field, Enum& value, NamesOf<Enum> names,
               const std::vector<std::pair<Enum, std::function<void(ConfigVisitor&)>>>& fields) {
    std::string name(name_of(value, names));
    std::vector<Variant> variants;
    for (const auto& one : names) {
      variants.push_back({one.name, one.meaning});
      for (const auto& [owner, describe] : fields) {
        if (owner != one.value) continue;
        variants.back().describe = [&, &describe = describe](ConfigVisitor& inner) {
          take(name, names, value);  // the fields may depend on it
          describe(inner);
        };
      }
    }
    variant(field, name, variants);
    take(name, names, value);
  }

  /// A table of its own: `[name]`.
  virtual void section(const Field& field, const std::function<void(ConfigVisitor&)>& describe) = 0;

  /// An array of tables. `resize` makes room for so many elements; `describe` visits element i.
  virtual void list(const Field& field, std::size_t size, const std::function<void(std::size_t)>& resize,
                    const std::function<void(std::size_t, ConfigVisitor&)>& describe) = 0;

  /// Adds a rule that no single range expresses, e.g. two settings that exclude each other. A parser throws ConfigError
  /// with the place of `field` where `holds` is false; other visitors ignore it. `message` says what is wrong and what
  /// to do.
  virtual void require(std::string_view field, bool holds, std::string_view message) = 0;

  /// Names a key or table that means nothing beside other settings. A parser throws ConfigError with its place where a
  /// config has it; other visitors ignore it. `reason` says why, and what to do.
  virtual void refuse(std::string_view /*field*/, std::string_view /*reason*/) {}

  template <typename Settings>
  void section(const Field& field, Settings& settings) {
    section(field, [&settings](ConfigVisitor& inner) { settings.describe(inner); });
  }

  /// An array of tables, each described by a settings struct.
  /// \tparam Settings default-constructible; the reference describes one element of it
  template <typename Settings>
  void list(const Field& field, std::vector<Settings>& elements) {
    list(
        field, elements.size(), [&elements](std::size_t size) { elements.resize(size); },
        [&elements](std::size_t i, ConfigVisitor& inner) { elements.at(i).describe(inner); });
  }

 private:
  template <typename Enum>
  static std::vector<Choice> choices_of(std::span<const Named<Enum>> names) {
    std::vector<Choice> choices;
    for (const auto& one : names) choices.push_back({one.name, one.meaning});
    return choices;
  }

  /// Sets `value` to the one called `name`; leaves it unchanged where the table has no such name.
  template <typename Enum>
  static void take(const std::string& name, NamesOf<Enum> names, Enum& value) {
    for (const auto& one : names) {
      if (one.name == name) value = one.value;
    }
  }
};

/// Gives all fields of some settings to a visitor.
using Describe = std::function<void(ConfigVisitor&)>;

/// A config as TOML text, with its file name for messages and the changes made on the command line.
struct ConfigText {
  std::string path;                    ///< path of the file, as the user wrote it: "configs/fashion.toml"
  std::string text;                    ///< TOML
  std::vector<std::string> overrides;  ///< changes of the text: "train.epochs=3"; the value is TOML, or a bare string
  /// Keys that are removed from the text before the overrides are applied: "optimizer.momentum".
  std::vector<std::string> removals = {};
};

/// Reads a config file.
/// \throws ConfigError naming the file where it cannot be read.
ConfigText read_config(const std::string& path, std::vector<std::string> overrides = {},
                       std::vector<std::string> removals = {});

/// Fills a settings struct from TOML: `describe` is `[&](ConfigVisitor& v) { settings.describe(v); }`. Overrides take
/// precedence over the text. If an override selects another kind (as optimizer.kind=adam does), keys of the text that
/// belong only to the kind named in the text are dropped.
/// \return a line for each override that dropped keys: "--set optimizer.kind=adam: momentum of the file's sgd is
/// dropped"
/// \throws ConfigError with file, line and column for text that is not TOML (with the line), an unknown key (with
///         the nearest known one), a wrong type, a value out of range, a missing required key, or a broken rule; an
///         override is named as "--set key=value".
std::vector<std::string> parse_config(const ConfigText& config, const Describe& describe);

/// The effective config as TOML: every key that is in force, defaults included. Parsing it gives the same settings.
std::string effective_config(const Describe& describe);

enum class ReferenceFormat { text, markdown };

/// The reference of a config: every key with its meaning, unit, default and range.
std::string config_reference(const Describe& describe, ReferenceFormat format);

/// The known name that is nearest to a mistyped one by edit distance, where swapping two neighbours counts as one edit.
/// Empty where no known name is within a third of the name's length (but at least 1).
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

/// The settings of single kinds (a strategy, an optimizer, a layer), stored by the type of their struct: only the
/// source file of a kind knows the struct. A struct that nobody has changed has its default values.
class OwnSettings {
 public:
  OwnSettings() = default;
  /// An object with the settings of one kind, e.g. OwnSettings::with(SgdSettings{.momentum = 0.9}).
  template <typename Settings>
  static OwnSettings with(Settings settings) {
    OwnSettings own;
    own.of<Settings>() = std::move(settings);
    return own;
  }

  /// The stored struct of this type; made with its default values where there is none yet.
  template <typename Settings>
  Settings& of() {
    return std::any_cast<Settings&>(by_type_.try_emplace(typeid(Settings), Settings{}).first->second);
  }
  /// A copy of the stored struct of this type; its default values where there is none.
  template <typename Settings>
  Settings of() const {
    const auto found = by_type_.find(typeid(Settings));
    return found == by_type_.end() ? Settings{} : std::any_cast<const Settings&>(found->second);
  }

 private:
  std::map<std::type_index, std::any> by_type_;
};

/// The keys of a config with their values, whatever they mean: {"train.epochs", 10}. A list is one value, as is a table
/// that is written in braces.
using ConfigTree = std::map<std::string, ConfigValue>;

/// The keys and values of a config's text, with its overrides and removals. \throws ConfigError where it is no TOML
ConfigTree config_tree(const ConfigText& config);

/// A key that has other values in two configs; a config that does not have the key has no value.
struct ConfigDifference {
  std::string key;  ///< "train.epochs"
  std::optional<ConfigValue> before, after;
};

/// Compares two configs key by key. \return what differs, in the order of the keys
std::vector<ConfigDifference> differences(const ConfigTree& before, const ConfigTree& after);

}  // namespace unisono
