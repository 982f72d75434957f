#include "unisono/search/space_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"

namespace unisono::search {
namespace {

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
