#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "plot/rows.hpp"
#include "search_sections.hpp"
#include "texts.hpp"

namespace unisono::report {
namespace {

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

std::string kind_of(const ConfigValue& option) {
  const ConfigValue* const kind = option.table() == nullptr ? nullptr : option.find("kind");
  return kind == nullptr ? "" : unquoted(toml_text(*kind));
}

/// A choice in a few characters: a table's kind, where no other choice has the same.
std::string name_of_choice(const search::Parameter& parameter, std::size_t option) {
  const std::string kind = kind_of(parameter.choices[option]);
  const auto same = std::ranges::count_if(parameter.choices, [&](const auto& one) { return kind_of(one) == kind; });
  if (!kind.empty() && same == 1) return kind;
  if (!kind.empty()) return fmt::format("{} {}", kind, option + 1);
  return unquoted(toml_text(parameter.choices[option]));
}

/// "optimizer[adam].learning_rate" of "optimizer[1].learning_rate"
std::string name_of_parameter(const search::Space& space, std::size_t i) {
  const search::Parameter& parameter = space.parameters()[i];
  if (parameter.owner < 0) return parameter.key;
  const auto owner = static_cast<std::size_t>(parameter.owner);
  const search::Parameter& around = space.parameters()[owner];
  const std::size_t prefix = fmt::format("{}[{}]", around.key, parameter.option).size();
  return fmt::format("{}[{}]{}", name_of_parameter(space, owner),
                     name_of_choice(around, static_cast<std::size_t>(parameter.option)), parameter.key.substr(prefix));
}

double number_at(const search::Parameter& parameter, double u) {
  if (parameter.scale == search::Scale::choice) return static_cast<double>(parameter.index(u));
  return parameter.at(u).number().value_or(kNoNumber);
}

SearchColumn column_of(const search::Space& space, std::size_t i) {
  const search::Parameter& parameter = space.parameters()[i];
  SearchColumn column{.name = name_of_parameter(space, i), .axis = {}, .values = {}};
  column.axis.label = column.name;
  if (parameter.scale == search::Scale::log) column.axis.spacing = plot::Spacing::logarithmic;
  if (parameter.scale != search::Scale::choice) return column;
  for (std::size_t option = 0; option < parameter.choices.size(); ++option) {
    column.axis.choices.push_back(plot::shortened(name_of_choice(parameter, option), 130));
  }
  return column;
}

}  // namespace

SearchTable table_of(const SearchHistory& search) {
  SearchTable table;
  for (std::size_t i = 0; i < search.space.parameters().size(); ++i)
    table.columns.push_back(column_of(search.space, i));
  for (const auto& [number, trial] : search.plan->trials()) {
    const double value = search.value(number);
    if (!std::isfinite(value)) continue;
    table.trials.push_back(number);
    table.values.push_back(value);
    table.epochs.push_back(static_cast<double>(trial.results.begin()->second.epochs));
    const search::Point point = search.plan->method().point(number);
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      const bool is_active = search.space.is_active(i, point);
      table.columns[i].values.push_back(is_active ? number_at(search.space.parameters()[i], point[i]) : kNoNumber);
    }
  }
  return table;
}

std::vector<std::string> column_names(const SearchHistory& search) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < search.space.parameters().size(); ++i) {
    names.push_back(name_of_parameter(search.space, i));
  }
  return names;
}

std::vector<std::string> cells_of(const SearchHistory& search, std::int64_t trial) {
  const search::Point point = search.plan->method().point(trial);
  std::vector<std::string> cells;
  for (std::size_t i = 0; i < search.space.parameters().size(); ++i) {
    const search::Parameter& parameter = search.space.parameters()[i];
    std::string& cell = cells.emplace_back();
    if (!search.space.is_active(i, point)) continue;
    cell = parameter.scale == search::Scale::choice
               ? name_of_choice(parameter, static_cast<std::size_t>(parameter.index(point[i])))
               : toml_text(parameter.at(point[i]));
  }
  return cells;
}

}  // namespace unisono::report
