#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

// A settings struct is declared once: its `describe` names each field, what it means, its unit and its range. The
// struct's own member initialisers are the defaults. Visitors parse a TOML file into it, write the effective config,
// and print the reference.
//
//   struct TrainSettings {
//     std::int64_t epochs = 10;
//     double label_smoothing = 0.0;
//     void describe(ConfigVisitor& visitor) {
//       visitor.field({.name = "epochs", .meaning = "passes over the training set", .minimum = 1}, epochs);
//       visitor.field({.name = "label_smoothing", .meaning = "share of the target spread over all classes",
//                      .minimum = 0, .maximum = 1, .maximum_excluded = true}, label_smoothing);
//     }
//   };

namespace unisono {

struct Field {
  std::string_view name;
  std::string_view meaning;
  std::string_view unit = "";
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  bool minimum_excluded = false;  ///< the value must lie above `minimum`
  bool maximum_excluded = false;
  bool required = false;  ///< no default: leaving it out is an error
};

/// One value of a choice.
struct Choice {
  std::string_view name;
  std::string_view meaning;
};

/// A value of an option that is an `enum class`, as users write it. One table of these per option is all there is:
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

/// A table that deduces nothing, so that `Enum` follows from the other argument: an array is one.
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

/// One value of `kind`, with the fields that only it has.
struct Variant {
  std::string_view name;
  std::string_view meaning;
  std::function<void(ConfigVisitor&)> describe = {};
};

class ConfigVisitor {
 public:
  virtual ~ConfigVisitor() = default;

  virtual void field(const Field& field, bool& value) = 0;
  virtual void field(const Field& field, std::int64_t& value) = 0;
  virtual void field(const Field& field, double& value) = 0;
  virtual void field(const Field& field, std::string& value) = 0;
  // One value stands for a list of one: kernel = 5.
  virtual void field(const Field& field, std::vector<std::int64_t>& value) = 0;
  virtual void field(const Field& field, std::vector<double>& value) = 0;
  virtual void field(const Field& field, std::vector<std::string>& value) = 0;

  /// A number of 1 or more, or a word that stands for 0.
  virtual void number_or(const Field& field, std::int64_t& value, const Choice& word) = 0;

  /// A list of numbers, or a word out of a fixed set, which is in force where the list is empty.
  virtual void numbers_or(const Field& field, std::vector<double>& values, std::string& word,
                          const std::vector<Choice>& words) = 0;

  /// A string out of a fixed set.
  virtual void choice(const Field& field, std::string& value, const std::vector<Choice>& choices) = 0;

  /// A string out of a fixed set that decides which further fields there are. A parser visits the fields of the one
  /// chosen; the reference visits all of them.
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

  /// A variant that is an enum. \param fields of those values that have any
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

  template <typename Settings>
  void section(const Field& field, Settings& settings) {
    section(field, [&settings](ConfigVisitor& inner) { settings.describe(inner); });
  }

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

  /// The value of a name; what no table knows leaves it as it is.
  template <typename Enum>
  static void take(const std::string& name, NamesOf<Enum> names, Enum& value) {
    for (const auto& one : names) {
      if (one.name == name) value = one.value;
    }
  }
};

using Describe = std::function<void(ConfigVisitor&)>;

/// Where a config's text came from, for messages.
struct ConfigText {
  std::string path;                    ///< as the user wrote it; "configs/fashion.toml"
  std::string text;                    ///< TOML
  std::vector<std::string> overrides;  ///< "train.epochs=3"; the value is TOML, or a bare string
  /// "optimizer.momentum": keys that are taken out of the text before the overrides are put in.
  std::vector<std::string> removals = {};
};

/// Reads a file.
/// \throws ConfigError naming the file where it cannot be read.
ConfigText read_config(const std::string& path, std::vector<std::string> overrides = {},
                       std::vector<std::string> removals = {});

/// Fills a settings struct from TOML: `describe` is `[&](ConfigVisitor& v) { settings.describe(v); }`. Overrides win
/// over the text: where one chooses another kind (as optimizer.kind=adam does), what the text says for its own kind
/// alone is left out.
/// \return a line for each override that did so: "--set optimizer.kind=adam: momentum of the file's sgd is dropped"
/// \throws ConfigError with file, line and column for text that is not TOML (with the line), an unknown key (with
///         the nearest known one), a wrong type, a value out of range, a missing required key, or a broken rule; an
///         override is named as "--set key=value".
std::vector<std::string> parse_config(const ConfigText& config, const Describe& describe);

/// The effective config as TOML: every key that is in force, defaults included. Parsing it gives the same settings.
std::string effective_config(const Describe& describe);

enum class ReferenceFormat { text, markdown };

/// Every key with its meaning, unit, default and range.
std::string config_reference(const Describe& describe, ReferenceFormat format);

/// The known name that is nearest to a mistyped one (edit distance, where a swap of neighbours counts once; at most a
/// third of its length, but one at least); empty where none is
/// near.
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

}  // namespace unisono
