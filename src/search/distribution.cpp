#include "distribution.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <regex>
#include <unordered_set>

#include "unisono/base/config.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::search {
namespace {

const std::vector<std::string> kDistributions = {"log", "linear", "integers", "choices"};
constexpr double kLargestWhole = 0x1p53;  // up to here a double holds every whole number

[[noreturn]] void fail(const ConfigValue& value, const std::string& key, const std::string& problem) {
  throw ConfigError(fmt::format("{}: '{}' in [search.space] {}", value.place, key, problem));
}

std::string did_you_mean(const std::string& name, const std::vector<std::string>& known) {
  const std::string nearest = nearest_name(name, known);
  return nearest.empty() ? fmt::format("it is one of '{}'", fmt::join(known, "', '"))
                         : fmt::format("did you mean '{}'?", nearest);
}

class SpaceParser {
 public:
  /// The entries of a table of keys. \param path of the table
  void read_table(const ConfigValue& table, const std::string& path);
  /// Keys that are given twice, or lie within another.
  void refuse_conflicts() const;

  std::vector<Parameter> parameters;

 private:
  struct Owner {
    int parameter = -1, option = 0;
  };
  void read_entry(const ConfigValue& value, const std::string& key);
  void read_distribution(const ConfigValue& value, const std::string& key, Owner owner);
  void add_choice(const ConfigValue& place, const ConfigValue& choices, const std::string& key, Owner owner);
  void add_number(const ConfigValue& value, const std::string& kind, const std::string& key, Owner owner);
  void read_option(const ConfigValue& value, const std::string& key, Owner owner);
  void add(Parameter parameter, const ConfigValue& value, Owner owner);

  std::vector<const ConfigValue*> values_;  ///< as they were written, for messages
};

void SpaceParser::add(Parameter parameter, const ConfigValue& value, Owner owner) {
  parameter.owner = owner.parameter;
  parameter.option = owner.option;
  parameters.push_back(std::move(parameter));
  values_.push_back(&value);
}

/// A table that is none, but looks as if it should be one: { logg = [1e-4, 1] }.
void refuse_misspelt(const ConfigValue& table, const std::string& key) {
  for (const auto& [name, value] : *table.table()) {
    const std::string meant = nearest_name(name, kDistributions);
    if (meant.empty() || value.array() == nullptr) continue;
    fail(value, key, fmt::format("is drawn as '{}', which does not exist; did you mean '{}'?", name, meant));
  }
}

void SpaceParser::read_table(const ConfigValue& table, const std::string& path) {
  for (const auto& [name, value] : *table.table()) {
    const std::string key = normal_key(name, value.place);
    read_entry(value, path.empty() ? key : path + "." + key);
  }
}

void SpaceParser::read_entry(const ConfigValue& value, const std::string& key) {
  if (value.array() != nullptr) return add_choice(value, value, key, {});
  if (is_distribution(value)) return read_distribution(value, key, {});
  if (value.table() == nullptr) {
    fail(value, key,
         fmt::format("is {}, which does not vary: write {{ linear = [0, 1] }}, {{ log = [1e-4, 1] }}, {{ integers = "
                     "[1, 8] }} or a list of choices; a fixed value belongs to the rest of the config",
                     toml_text(value)));
  }
  if (value.table()->empty()) fail(value, key, "is empty: write { linear = [0, 1] } or a list of choices");
  refuse_misspelt(value, key);
  read_table(value, key);
}

void SpaceParser::read_distribution(const ConfigValue& value, const std::string& key, Owner owner) {
  std::string kind;
  for (const std::string& name : kDistributions) {  // { integers = …, log = true } is one of integers
    if (value.find(name) != nullptr) kind = name;
  }
  std::vector<std::string> known = {kind};
  if (kind == "integers") known.insert(known.end(), {"step", "log"});
  for (const auto& [name, inner] : *value.table()) {
    if (std::ranges::find(known, name) != known.end()) continue;
    if (std::ranges::find(kDistributions, name) != kDistributions.end()) {
      fail(inner, key, fmt::format("is drawn both as '{}' and as '{}'; remove one of them", name, kind));
    }
    fail(inner, key, fmt::format("has an unknown key '{}' beside '{}'; {}", name, kind, did_you_mean(name, known)));
  }
  if (kind == "choices") return add_choice(value, *value.find(kind), key, owner);
  add_number(value, kind, key, owner);
}

/// The smallest and the largest value. \param kind "log"
void read_range(const ConfigValue& range, const std::string& kind, Parameter& p) {
  const ConfigValue::Array* const ends = range.array();
  if (ends == nullptr || ends->size() != 2 || !(*ends)[0].number() || !(*ends)[1].number()) {
    fail(range, p.key, fmt::format("takes the smallest and the largest value: {} = [1, 8]", kind));
  }
  p.low = *(*ends)[0].number();
  p.high = *(*ends)[1].number();
  if (!std::isfinite(p.low) || !std::isfinite(p.high)) fail(range, p.key, "must have finite ends");
  if (p.low >= p.high) {
    fail(range, p.key, fmt::format("is {}, but the first number must be below the second", toml_text(range)));
  }
  if (!std::isfinite(p.high - p.low)) fail(range, p.key, "has too wide a range");
}

/// What is special to { integers = [16, 256], step = 16, log = true }.
void read_whole(const ConfigValue& value, Parameter& p) {
  const ConfigValue& range = *value.find("integers");
  const bool whole = std::ranges::all_of(
      *range.array(), [](const ConfigValue& end) { return std::holds_alternative<std::int64_t>(end.value); });
  if (!whole || std::abs(p.low) > kLargestWhole || std::abs(p.high) > kLargestWhole) {
    fail(range, p.key, "takes whole numbers: integers = [1, 8]; for others, use linear or log");
  }
  p.step = 1;
  if (const ConfigValue* step = value.find("step")) {
    const auto* const given = std::get_if<std::int64_t>(&step->value);
    p.step = given == nullptr ? 0 : *given;
    if (p.step < 1 || static_cast<double>(p.step) > p.high - p.low) {
      fail(*step, p.key, "needs a step that is a whole number, at least 1 and at most the range");
    }
  }
  p.asked_high = p.high;
  p.high = p.low + static_cast<double>((p.values() - 1) * p.step);
  if (const ConfigValue* log = value.find("log")) {
    const auto* const given = std::get_if<bool>(&log->value);
    if (given == nullptr) fail(*log, p.key, "takes true or false for log beside integers");
    if (*given) p.scale = Scale::log;
  }
}

void SpaceParser::add_number(const ConfigValue& value, const std::string& kind, const std::string& key, Owner owner) {
  Parameter p;
  p.key = key;
  if (kind == "log") p.scale = Scale::log;
  read_range(*value.find(kind), kind, p);
  if (kind == "integers") read_whole(value, p);
  if (p.scale == Scale::log && p.low <= 0) {
    fail(*value.find(kind), key,
         "has no logarithm at its smallest value, which must be above 0; for others, use linear");
  }
  add(std::move(p), value, owner);
}

void SpaceParser::add_choice(const ConfigValue& place, const ConfigValue& choices, const std::string& key,
                             Owner owner) {
  const ConfigValue::Array* const options = choices.array();
  if (options == nullptr) fail(choices, key, "takes a list of choices: choices = [1, 2]");
  if (options->empty()) fail(choices, key, "has no choices; give at least one, or remove the key");
  std::unordered_set<std::string> texts;
  for (const ConfigValue& option : *options) {
    const std::string text = toml_text(option);
    if (!texts.insert(text).second) fail(option, key, fmt::format("has the choice {} twice; remove one", text));
  }
  const int index = static_cast<int>(parameters.size());
  Parameter choice;
  choice.key = key;
  choice.scale = Scale::choice;
  choice.choices = *options;
  add(std::move(choice), place, owner);
  for (std::size_t i = 0; i < options->size(); ++i) {
    read_option((*options)[i], fmt::format("{}[{}]", key, i), {index, static_cast<int>(i)});
  }
}

void SpaceParser::read_option(const ConfigValue& value, const std::string& key, Owner owner) {
  if (is_distribution(value)) return read_distribution(value, key, owner);
  if (const auto* array = value.array()) {
    for (std::size_t i = 0; i < array->size(); ++i) read_option((*array)[i], fmt::format("{}.{}", key, i), owner);
  }
  if (value.table() == nullptr) return;
  for (const auto& [name, inner] : *value.table()) {
    const std::string inner_key = fmt::format("{}.{}", key, name);
    if (inner.table() != nullptr && !is_distribution(inner)) refuse_misspelt(inner, inner_key);
    read_option(inner, inner_key, owner);
  }
}

/// Whether one of the choices gives a value to a key within it. \param path of the key in a choice: "layers.0.units"
bool gives(const ConfigValue& option, const std::string& path) {
  const std::string step = path.substr(0, path.find('.'));
  const ConfigValue* inner = option.find(step);
  if (const auto* array = option.array()) {
    for (std::size_t i = 0; i < array->size(); ++i) {
      if (std::to_string(i) == step) inner = &(*array)[i];
    }
  }
  return inner != nullptr && (step.size() == path.size() || gives(*inner, path.substr(step.size() + 1)));
}

/// A key that lies within another one, which must be a choice of tables that do not give it.
void refuse_given_twice(const ConfigValue& value, const Parameter& p, const Parameter& around) {
  const bool tables = std::ranges::all_of(around.choices, [](const auto& c) { return c.table() || c.array(); });
  if (around.scale != Scale::choice || !tables) {
    fail(value, p.key, fmt::format("lies within '{}', which is no table; remove one", around.key));
  }
  for (const ConfigValue& choice : around.choices) {
    if (!gives(choice, p.key.substr(around.key.size() + 1))) continue;
    fail(value, p.key,
         fmt::format("is also given by the choice {} of '{}'; remove one", toml_text(choice), around.key));
  }
}

void SpaceParser::refuse_conflicts() const {
  std::map<std::string, std::size_t, std::less<>> first;  // the parameters that are always drawn
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].owner < 0) first.emplace(parameters[i].key, i);
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& p = parameters[i];
    if (p.owner >= 0) continue;
    if (first.at(p.key) < i) fail(*values_[i], p.key, "is given twice; remove one");
    for (std::size_t dot = p.key.find('.'); dot != std::string::npos; dot = p.key.find('.', dot + 1)) {
      const auto around = first.find(std::string_view(p.key).substr(0, dot));
      if (around != first.end()) refuse_given_twice(*values_[i], p, parameters[around->second]);
    }
  }
}

constexpr double kBelowOne = 1 - 0x1p-53;

/// Where the distribution function reaches 1.
double end_of(const Parameter& p) { return p.high + static_cast<double>(p.step); }

/// F(x)
double share_below(const Parameter& p, double x) {
  if (p.scale == Scale::log) return std::log(x / p.low) / std::log(end_of(p) / p.low);
  return (x - p.low) / (end_of(p) - p.low);
}

/// F⁻¹(u)
double quantile(const Parameter& p, double u) {
  if (p.scale == Scale::log) return p.low * std::exp(u * std::log(end_of(p) / p.low));
  return p.low + u * (end_of(p) - p.low);
}

/// To six significant digits.
double rounded(double x) {
  const std::string text = fmt::format("{:.6g}", x);
  std::from_chars(text.data(), text.data() + text.size(), x);
  return x;
}

std::int64_t value_of_index(const Parameter& p, std::int64_t i) {
  return static_cast<std::int64_t>(p.low) + i * p.step;
}

}  // namespace

bool is_distribution(const ConfigValue& value) {
  return std::ranges::any_of(kDistributions, [&](const auto& name) { return value.find(name) != nullptr; });
}

std::string normal_key(const std::string& key, const std::string& place) {
  constexpr std::size_t kLongest = 1000;
  static const std::regex kPath(R"([\w-]+(\[\d+\])*(\.[\w-]+(\[\d+\])*)*)");
  if (key.size() > kLongest || !std::regex_match(key, kPath)) {
    throw ConfigError(
        fmt::format("{}: '{}' is no path of a key; write it as \"train.batch_size\" or "
                    "\"model.layers[3].units\"",
                    place, key));
  }
  std::string path;
  for (const char c : key) {
    if (c != ']') path += c == '[' ? '.' : c;
  }
  return path;
}

std::vector<Parameter> parse_space(const ConfigValue& table) {
  if (table.table() == nullptr) {
    throw ConfigError(
        fmt::format("{}: [search.space] must be a table of keys and what they are drawn from", table.place));
  }
  SpaceParser parser;
  parser.read_table(table, "");
  parser.refuse_conflicts();
  return std::move(parser.parameters);
}

std::int64_t Parameter::values() const {
  if (scale == Scale::choice) return static_cast<std::int64_t>(choices.size());
  return step == 0 ? 0 : static_cast<std::int64_t>(high - low) / step + 1;
}

std::int64_t Parameter::index(double u) const {
  if (values() == 0) return 0;
  const double i = scale == Scale::choice ? u * static_cast<double>(choices.size())
                                          : (quantile(*this, u) - low) / static_cast<double>(step);
  return std::clamp(static_cast<std::int64_t>(i), std::int64_t{0}, values() - 1);
}

double Parameter::middle(std::int64_t i) const {
  if (scale == Scale::choice) return (static_cast<double>(i) + 0.5) / static_cast<double>(choices.size());
  const auto value = static_cast<double>(value_of_index(*this, i));
  return (share_below(*this, value) + share_below(*this, value + static_cast<double>(step))) / 2;
}

ConfigValue Parameter::at(double u) const {
  if (scale == Scale::choice) return choices[static_cast<std::size_t>(index(u))];
  if (step > 0) return {.value = value_of_index(*this, index(u))};
  return {.value = std::clamp(rounded(quantile(*this, u)), low, high)};
}

std::optional<double> Parameter::place_of(const ConfigValue& value) const {
  if (scale == Scale::choice) {
    const auto found = std::ranges::find_if(choices, [&](const ConfigValue& choice) {
      return choice == value || (choice.number() && choice.number() == value.number());
    });
    if (found == choices.end()) return std::nullopt;
    return middle(found - choices.begin());
  }
  const std::optional<double> number = value.number();
  if (!number || !(*number >= low && *number <= high)) return std::nullopt;
  if (step == 0) return std::clamp(share_below(*this, *number), 0.0, kBelowOne);
  const auto i = static_cast<std::int64_t>((*number - low) / static_cast<double>(step));
  if (static_cast<double>(value_of_index(*this, i)) != *number) return std::nullopt;
  return middle(i);
}

}  // namespace unisono::search
