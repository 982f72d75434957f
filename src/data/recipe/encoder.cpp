#include "recipe/encoder.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "unisono/base/config.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/printable.hpp"

namespace unisono::data {
namespace {

const char* text_of(ColumnKind kind) { return kind == ColumnKind::number ? "numbers" : "categories"; }

std::size_t find_column(const Recipe& file, const FittedColumn& fitted, const std::string& path) {
  const auto found = std::find_if(file.columns.begin(), file.columns.end(),
                                  [&](const RecipeColumn& column) { return column.name == fitted.name; });
  if (found == file.columns.end()) {
    std::vector<std::string> names;
    for (const RecipeColumn& column : file.columns) names.push_back(column.name);
    fail_without_column(path, fitted.name, names);
  }
  if (found->kind != fitted.kind) {
    throw DataError(fmt::format("{}: column '{}' holds {}, but the model was trained on {} in this column", path,
                                fitted.name, text_of(found->kind), text_of(fitted.kind)));
  }
  return static_cast<std::size_t>(found - file.columns.begin());
}

}  // namespace

std::vector<std::int32_t> Encoder::places_of(const FittedColumn& fitted, const RecipeColumn& stored, Unknown unknown) {
  const LevelIndex known(fitted.levels);
  std::vector<std::int32_t> places;
  for (const std::string& level : stored.levels) {
    std::int32_t place = unknown == Unknown::error ? kRefused : kNoLevel;
    if (const auto found = known.find(level)) {
      place = static_cast<std::int32_t>(*found);
    } else if (fitted.other) {
      place = static_cast<std::int32_t>(fitted.levels.size());
    }
    places.push_back(place);
  }
  return places;
}

Encoder::Encoder(const Preprocessing& fitted, const Recipe& file, const std::string& path)
    : raw_width_(static_cast<Index>(file.columns.size())) {
  for (const FittedColumn& column : fitted.columns) {
    const std::size_t from = find_column(file, column, path);
    columns_.push_back({.fitted = column, .from = from});
    if (column.kind == ColumnKind::category) {
      columns_.back().levels = file.columns[from].levels;
      columns_.back().places = places_of(column, file.columns[from], fitted.recipe.unknown);
    }
    width_ += column.width();
  }
}

void Encoder::encode(const float* raw, float* features, const std::string& where, std::int64_t example) const {
  for (const Column& column : columns_) {
    const float value = raw[column.from];
    if (column.fitted.kind == ColumnKind::number) {
      if (std::isnan(value) && !column.fitted.fill) refuse(column, value, where, example);
      *features++ = std::isnan(value) ? static_cast<float>(*column.fitted.fill) : value;
      continue;
    }
    // NaN, and numbers that are not a level's, fail one of these comparisons.
    const bool is_level = value >= 0 && value < static_cast<float>(column.places.size()) && value == std::floor(value);
    const std::int32_t place = is_level ? column.places[static_cast<std::size_t>(value)] : kRefused;
    if (place == kRefused) refuse(column, value, where, example);
    const auto width = static_cast<std::size_t>(column.fitted.width());
    std::fill(features, features + width, 0.0F);
    if (place != kNoLevel) features[place] = 1;
    features += width;
  }
}

void Encoder::refuse(const Column& column, float raw, const std::string& where, std::int64_t example) {
  const std::string place = fmt::format("{}: example {}: column '{}'", where, example, column.fitted.name);
  if (column.fitted.kind == ColumnKind::number) {
    throw DataError(
        place +
        ": the value is missing; fill it in, or import the training set with --missing mean or --missing median");
  }
  if (!(raw >= 0 && raw < static_cast<float>(column.levels.size()))) {
    throw DataError(
        fmt::format("{}: holds the category number {}, but the column has only {} categories; import the set again",
                    place, raw, column.levels.size()));
  }
  const std::string& level = column.levels[static_cast<std::size_t>(raw)];
  throw DataError(fmt::format(
      "{}: {}, which the model was not trained on (it knows {}); leave the row out, or import the training set with "
      "--unknown other",
      place, level.empty() ? "the value is missing" : fmt::format("'{}'", level), listed(column.fitted.levels)));
}

namespace {

constexpr std::size_t kShown = 10;

}  // namespace

std::optional<double> exact_number(std::string_view text) {
  constexpr double kLargest = 1LL << 53;
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(std::abs(value) < kLargest)) return std::nullopt;
  return value;
}

LevelIndex::LevelIndex(const std::vector<std::string>& levels) : levels_(levels) {
  for (const std::string& level : levels_) {
    const auto value = exact_number(level);
    if (!value && !level.empty()) {
      values_.clear();
      return;
    }
    values_.push_back(value.value_or(std::numeric_limits<double>::quiet_NaN()));  // "" is a missing value, not a number
  }
}

std::optional<std::size_t> LevelIndex::find(std::string_view text) const {
  const auto level = std::find(levels_.begin(), levels_.end(), text);
  if (level != levels_.end()) return static_cast<std::size_t>(level - levels_.begin());
  const auto number = exact_number(text);
  const auto value = number ? std::find(values_.begin(), values_.end(), *number) : values_.end();
  if (value == values_.end()) return std::nullopt;
  return static_cast<std::size_t>(value - values_.begin());
}

std::string listed(std::vector<std::string> names) {
  const std::size_t count = names.size();
  names.resize(std::min(count, kShown));
  for (std::string& name : names) name = on_one_line(name);
  return fmt::format("{}{}", fmt::join(names, ", "), count > kShown ? ", …" : "");
}

void fail_without_column(const std::string& path, const std::string& column, const std::vector<std::string>& there) {
  const std::string nearest = nearest_name(column, there);
  throw DataError(fmt::format("{}: has no column '{}', which the model was trained on; its columns are {}{}", path,
                              column, listed(there),
                              nearest.empty() ? "" : fmt::format(" (is it '{}'? then rename it)", nearest)));
}

}  // namespace unisono::data
