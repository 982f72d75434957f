#include "unisono/search/space.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>

#include "distribution.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"

namespace unisono::search {
namespace {

constexpr double kNotDrawn = 0.5;

bool holds_tables(const Parameter& p) {
  return std::ranges::any_of(p.choices, [](const auto& c) { return c.table() || c.array(); });
}

/// The value of a key that is written as a path or as nested tables; null where there is none.
const ConfigValue* value_at(const ConfigValue& values, const std::string& key, const std::string& path) {
  if (values.table() == nullptr) return nullptr;
  for (const auto& [name, inner] : *values.table()) {
    const std::string full = (path.empty() ? "" : path + ".") + normal_key(name, inner.place);
    if (full == key) return &inner;
    if (!key.starts_with(full + ".")) continue;
    if (const ConfigValue* found = value_at(inner, key, full)) return found;
  }
  return nullptr;
}

std::string range_text(const Parameter& p) {
  if (p.scale == Scale::choice) {
    std::vector<std::string> texts;
    for (const ConfigValue& choice : p.choices) texts.push_back(toml_text(choice));
    return "one of its choices: " + any_of({texts.begin(), texts.end()});
  }
  const std::string range = fmt::format("at least {} and at most {}", p.low, p.high);
  return p.step == 0 ? "a number, " + range : fmt::format("a whole number, {}, in steps of {}", range, p.step);
}

constexpr double kLargestShare = 1 - 0x1p-53;
constexpr std::uint64_t kOthers = 64;  ///< combinations of the other parameters with which a value is tried

struct TakenKey {
  std::string_view key, why;
  bool in_steps = false;  ///< taken only by methods that decide how long a trial is trained
};

constexpr std::array kTaken = {
    TakenKey{"search", "a trial has no search of its own; remove it"},
    TakenKey{"cross_validation", "a trial has no cross-validation of its own; remove it"},
    TakenKey{"study", "a trial has no study of its own; remove it"},
    TakenKey{"seed",
             "each trial has a seed of its own; remove it, and set search.repeats for several seeds of a trial"},
    TakenKey{"name", "it changes no training; remove it"},
    TakenKey{"output", "trials are written below the search's folder; remove it, and use --output for that"},
    TakenKey{"train.threads", "all trials have search.threads_per_trial; remove it"},
    TakenKey{"data.path", "trials are compared on the same examples; remove it, and search once for each set"},
    TakenKey{"data.validation_fraction", "trials are compared on the same validation examples; remove it"},
    TakenKey{"data.split_seed", "trials are compared on the same validation examples; remove it"},
    TakenKey{"data.stratify", "trials are compared on the same validation examples; remove it"},
    TakenKey{"train.epochs", "search.method decides how long a trial is trained; remove it, or choose another method",
             true},
    TakenKey{"train.steps", "search.method decides how long a trial is trained; remove it, or choose another method",
             true}};

bool lies_within(std::string_view key, std::string_view outer) {
  return key == outer || (key.starts_with(outer) && key[outer.size()] == '.');
}

/// Whether a table gives a value to a path in it, "path" or "early_stopping.patience".
bool gives(const ConfigValue& value, std::string_view path) {
  const std::string step(path.substr(0, path.find('.')));
  const ConfigValue* const inner = value.find(step);
  return inner != nullptr && (step.size() == path.size() || gives(*inner, path.substr(step.size() + 1)));
}

bool sets(const Assignment& one, std::string_view key) {
  if (lies_within(one.key, key)) return true;
  return lies_within(key, one.key) && gives(one.value, key.substr(one.key.size() + 1));
}

/// Where a parameter is drawn: with the choices that it depends on. \param others which combination of the others
Point point_with(const Space& space, std::size_t parameter, double u, std::uint64_t others) {
  const auto& parameters = space.parameters();
  Point point;
  RandomStream random(0, Purpose::search, others);
  for (const Parameter& p : parameters) {
    const auto drawn = static_cast<double>(random.bits()) * 0x1p-32;
    point.push_back(others > 0 ? drawn : p.values() > 0 ? p.middle(0) : 0.5);
  }
  point[parameter] = u;
  for (std::size_t at = parameter; parameters[at].owner >= 0;) {
    const auto owner = static_cast<std::size_t>(parameters[at].owner);
    point[owner] = parameters[owner].middle(parameters[at].option);
    at = owner;
  }
  return point;
}

/// All choices, or the smallest and the largest number.
std::vector<double> places_of(const Parameter& p) {
  if (p.scale != Scale::choice) return {0.0, kLargestShare};
  std::vector<double> places;
  for (std::int64_t i = 0; i < p.values(); ++i) places.push_back(p.middle(i));
  return places;
}

/// Of "--set KEY=VALUE: what is wrong" the last part: the value comes from the space.
std::string without_set(const std::string& message, const std::vector<Assignment>& values) {
  for (const Assignment& one : values) {
    const std::string start = "--set " + one.override_text() + ": ";
    if (message.starts_with(start)) return message.substr(start.size());
  }
  return message;
}

/// Why no trial can have this value; nothing where one can.
std::optional<std::string> problem_with(const Space& space, std::size_t parameter, double u,
                                        const std::function<void(const std::vector<Assignment>&)>& parse) {
  std::optional<std::string> problem;
  const bool alone = space.parameters().size() == 1;
  for (std::uint64_t others = 0; others < (alone ? 1 : kOthers); ++others) {
    const std::vector<Assignment> values = space.at(point_with(space, parameter, u, others));
    try {
      parse(values);
      return std::nullopt;
    } catch (const ConfigError& error) {
      if (!problem) problem = without_set(error.what(), values);
    }
  }
  return problem;
}

}  // namespace

Space::Space(const ConfigValue& table) : parameters_(parse_space(table)) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].owner < 0) order_.push_back(i);
  }
  std::ranges::stable_sort(order_, {}, [this](std::size_t i) {  // a whole table before what lies in it
    const auto depth = std::ranges::count(parameters_[i].key, '.');
    return holds_tables(parameters_[i]) ? std::tuple(false, depth) : std::tuple(true, decltype(depth){0});
  });
}

const Parameter* Space::find(const std::string& key, std::size_t* at) const {
  const auto found = std::ranges::find(parameters_, key, &Parameter::key);
  if (at != nullptr) *at = static_cast<std::size_t>(found - parameters_.begin());
  return found == parameters_.end() ? nullptr : &*found;
}

bool Space::is_active(std::size_t parameter, const Point& point) const {
  const Parameter& p = parameters_[parameter];
  if (p.owner < 0) return true;
  const auto owner = static_cast<std::size_t>(p.owner);
  return parameters_[owner].index(point[owner]) == p.option && is_active(owner, point);
}

ConfigValue Space::filled(const ConfigValue& option, const std::string& key, const Point& point) const {
  std::size_t at = 0;
  if (is_distribution(option)) {
    const Parameter& p = *find(key, &at);
    if (p.scale != Scale::choice) return p.at(point[at]);
    const std::int64_t i = p.index(point[at]);
    return filled(p.choices[static_cast<std::size_t>(i)], fmt::format("{}[{}]", key, i), point);
  }
  ConfigValue result = option;
  if (auto* table = std::get_if<ConfigValue::Table>(&result.value)) {
    for (auto& [name, inner] : *table) inner = filled(inner, fmt::format("{}.{}", key, name), point);
  } else if (auto* array = std::get_if<ConfigValue::Array>(&result.value)) {
    for (std::size_t i = 0; i < array->size(); ++i) {
      (*array)[i] = filled((*array)[i], fmt::format("{}.{}", key, i), point);
    }
  }
  return result;
}

std::vector<Assignment> Space::at(const Point& point) const {
  std::vector<Assignment> assignments;
  for (const std::size_t i : order_) {
    const Parameter& p = parameters_[i];
    const std::string key = fmt::format("{}[{}]", p.key, p.index(point[i]));
    const ConfigValue value = p.at(point[i]);
    assignments.push_back({p.key, p.scale == Scale::choice ? filled(value, key, point) : value});
  }
  return assignments;
}

std::vector<Point> Space::grid() const {
  std::vector<Point> points = {Point(parameters_.size(), kNotDrawn)};
  for (std::size_t j = 0; j < parameters_.size(); ++j) {
    const Parameter& p = parameters_[j];
    if (p.values() == 0) {
      throw ConfigError(
          fmt::format("search.method = \"grid\" needs finitely many values, but '{}' in [search.space] "
                      "takes any number from {} to {}: give it a list of choices, or use method = "
                      "\"random\"",
                      p.key, p.low, p.high));
    }
    std::vector<Point> before;
    before.swap(points);
    for (const Point& point : before) {
      const std::int64_t values = is_active(j, point) ? p.values() : 1;
      if (static_cast<std::int64_t>(points.size()) + values > kMostGridPoints) {
        throw ConfigError(
            fmt::format("the grid of [search.space] has more than {} points: vary fewer keys, or use "
                        "method = \"random\"",
                        grouped(kMostGridPoints)));
      }
      for (std::int64_t i = 0; i < values; ++i) {
        points.push_back(point);
        if (is_active(j, point)) points.back()[j] = p.middle(i);
      }
    }
  }
  return points;
}

bool Space::matches(const Parameter& parameter, const ConfigValue& value, double& u, Point& point) const {
  if (parameter.scale != Scale::choice) {
    const std::optional<double> place = parameter.place_of(value);
    if (place) u = *place;
    return place.has_value();
  }
  for (std::size_t i = 0; i < parameter.choices.size(); ++i) {
    Point changed = point;
    if (!matches(parameter.choices[i], value, fmt::format("{}[{}]", parameter.key, i), changed)) continue;
    point = std::move(changed);
    u = parameter.middle(static_cast<std::int64_t>(i));
    return true;
  }
  return false;
}

bool Space::matches(const ConfigValue& option, const ConfigValue& value, const std::string& key, Point& point) const {
  if (is_distribution(option)) {
    std::size_t at = 0;
    const Parameter& p = *find(key, &at);
    double u = kNotDrawn;
    if (!matches(p, value, u, point)) return false;
    point[at] = u;
    return true;
  }
  if (const auto* table = option.table()) {
    if (value.table() == nullptr || value.table()->size() != table->size()) return false;
    return std::ranges::all_of(*table, [&](const auto& entry) {
      const ConfigValue* const given = value.find(entry.key);
      return given != nullptr && matches(entry.value, *given, fmt::format("{}.{}", key, entry.key), point);
    });
  }
  if (const auto* array = option.array()) {
    if (value.array() == nullptr || value.array()->size() != array->size()) return false;
    for (std::size_t i = 0; i < array->size(); ++i) {
      if (!matches((*array)[i], (*value.array())[i], fmt::format("{}.{}", key, i), point)) return false;
    }
    return true;
  }
  return option == value || (option.number() && option.number() == value.number());
}

void Space::refuse_other_keys(const ConfigValue& values, const std::string& path) const {
  for (const auto& [name, inner] : *values.table()) {
    const std::string key = (path.empty() ? "" : path + ".") + normal_key(name, inner.place);
    if (find(key) != nullptr) continue;
    const bool leads = std::ranges::any_of(parameters_, [&](const auto& p) { return p.key.starts_with(key + "."); });
    if (leads && inner.table() != nullptr) {
      refuse_other_keys(inner, key);
    } else {
      throw ConfigError(
          fmt::format("{}: '{}' in search.baselines is not varied by [search.space]; remove it, or add "
                      "it there",
                      inner.place, key));
    }
  }
}

Point Space::point_of(const ConfigValue& values) const {
  if (values.table() == nullptr) {
    throw ConfigError(
        fmt::format("{}: a trial of search.baselines must be a table of keys and their values", values.place));
  }
  refuse_other_keys(values, "");
  Point point(parameters_.size(), kNotDrawn);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& p = parameters_[i];
    if (p.owner >= 0) continue;
    const ConfigValue* const value = value_at(values, p.key, "");
    if (value == nullptr) {
      throw ConfigError(
          fmt::format("{}: a trial of search.baselines lacks '{}', which [search.space] varies", values.place, p.key));
    }
    double u = kNotDrawn;
    if (!matches(p, *value, u, point)) {
      throw ConfigError(fmt::format("{}: '{}' in search.baselines is {}, which [search.space] does not have; it is {}",
                                    value->place, p.key, toml_text(*value), range_text(p)));
    }
    point[i] = u;
  }
  return point;
}

void require_values(const Space& space, const std::function<void(const std::vector<Assignment>&)>& parse) {
  for (std::size_t j = 0; j < space.parameters().size(); ++j) {
    const Parameter& p = space.parameters()[j];
    for (const double u : places_of(p)) {
      const auto problem = problem_with(space, j, u, parse);
      if (!problem) continue;
      throw ConfigError(
          fmt::format("[search.space] '{}' = {}: no trial can have it: {}", p.key, toml_text(p.at(u)), *problem));
    }
  }
}

std::vector<std::string> notes_on(const Space& space, std::int64_t trials) {
  std::vector<std::string> notes;
  bool is_finite = true;
  for (const Parameter& p : space.parameters()) {
    is_finite = is_finite && p.values() > 0;
    if (p.step == 0 || p.high == p.asked_high) continue;
    notes.push_back(fmt::format("[search.space] '{}': steps of {} from {} end at {}, and do not reach {}", p.key,
                                p.step, p.low, p.high, p.asked_high));
  }
  if (!is_finite || trials == 0) return notes;
  std::int64_t points = 0;
  try {
    points = std::ssize(space.grid());
  } catch (const ConfigError&) {  // there are far more points than trials
    return notes;
  }
  if (points >= trials) return notes;
  notes.push_back(
      fmt::format("[search.space] has only {}, of which {} trials are drawn: some are the same with another "
                  "seed, and the best of them is the luckiest one; search.method = \"grid\" trains each once",
                  count_of(points, "point"), trials));
  return notes;
}

void require_free_keys(const Space& space, bool in_steps) {
  for (std::size_t j = 0; j < space.parameters().size(); ++j) {
    for (const double u : places_of(space.parameters()[j])) {
      for (const Assignment& one : space.at(point_with(space, j, u, 0))) {
        for (const TakenKey& taken : kTaken) {
          if ((taken.in_steps && !in_steps) || !sets(one, taken.key)) continue;
          throw ConfigError(fmt::format("[search.space] '{}' cannot vary: {}", taken.key, taken.why));
        }
      }
    }
  }
}

}  // namespace unisono::search
