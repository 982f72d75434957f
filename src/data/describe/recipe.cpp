#include "describe/recipe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "describe/tally.hpp"
#include "recipe/levels.hpp"
#include "unisono/base/text.hpp"

namespace unisono::data {
namespace {

constexpr std::int64_t kMostRows = 1 << 16;  // rows from which the figures are computed

struct ColumnSurvey {
  Tally tally;
  std::int64_t missing = 0;
};

/// The figures of each column, over the first rows of a group.
std::vector<ColumnSurvey> survey_columns(const hdf5::File& file, const GroupSchema& group, const Recipe& recipe,
                                         std::int64_t rows) {
  const std::size_t width = recipe.columns.size();
  std::vector<float> raw(static_cast<std::size_t>(rows) * width);
  file.read_rows(group.features_path(), 0, static_cast<std::uint64_t>(rows), raw.data());
  std::vector<ColumnSurvey> columns(width);
  for (std::size_t i = 0; i < raw.size(); ++i) {
    ColumnSurvey& column = columns[i % width];
    std::isnan(raw[i]) ? void(++column.missing) : column.tally.add(raw[i]);
  }
  return columns;
}

std::string column_text(const RecipeColumn& column, const ColumnSurvey& survey, std::int64_t rows) {
  if (column.kind == ColumnKind::category) {
    std::vector<std::string> levels = column.levels;
    std::replace(levels.begin(), levels.end(), std::string(), std::string("(missing)"));
    return fmt::format("  {:20} {}: {}\n", column.name, count_of(std::ssize(levels), "category"), listed(levels));
  }
  const std::string missing = survey.missing > 0 ? fmt::format(", {} missing", survey.missing) : "";
  if (survey.missing == rows) return fmt::format("  {:20} numbers, all of them missing\n", column.name);
  return fmt::format("  {:20} {}{}\n", column.name, survey_text(survey.tally.survey(rows - survey.missing)), missing);
}

std::string policy_text(const Recipe& recipe) {
  const char* scaling = recipe.scaling == Scaling::standard  ? "standard (mean 0, standard deviation 1)"
                        : recipe.scaling == Scaling::min_max ? "min_max (0 to 1)"
                                                             : "none";
  const char* missing =
      recipe.missing == Missing::mean     ? "numbers become the mean; missing categories are a category of their own"
      : recipe.missing == Missing::median ? "numbers become the median; missing categories are a category of their own"
                                          : "refused";
  const std::string unknown =
      recipe.unknown == Unknown::error ? "refused"
      : recipe.minimum_frequency > 1
          ? fmt::format("become 'other', as do categories of fewer than {} training rows", recipe.minimum_frequency)
          : "become 'other'";
  return fmt::format("scaling of numbers: {}\nmissing values: {}\nunknown categories: {}\n", scaling, missing, unknown);
}

}  // namespace

std::string recipe_text(const hdf5::File& file, const SetSchema& set) {
  const GroupSchema& group = set.any_group();
  const std::int64_t rows = std::min(kMostRows, group.examples);
  const std::vector<ColumnSurvey> surveys = survey_columns(file, group, set.recipe, rows);
  std::string text =
      fmt::format("raw values of {} column{}\n", set.recipe.columns.size(), set.recipe.columns.size() == 1 ? "" : "s");
  for (std::size_t i = 0; i < surveys.size(); ++i) text += column_text(set.recipe.columns[i], surveys[i], rows);
  if (rows < group.examples) text += fmt::format("  (figures of the first {} rows of {})\n", rows, group.name);
  return text + policy_text(set.recipe);
}

}  // namespace unisono::data
