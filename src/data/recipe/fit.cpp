#include "recipe/fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

/// Statistics of a column over the training examples.
class ColumnFigures {
 public:
  ColumnFigures(const RecipeColumn& column, const Recipe& recipe)
      : column_(column), recipe_(recipe), counts_(column.levels.size()) {}

  void add(float value) {
    if (column_.kind == ColumnKind::category) {
      const auto code = static_cast<std::size_t>(value);
      if (value >= 0 && code < counts_.size()) ++counts_[code];  // else the encoder refuses it
    } else if (!std::isnan(value)) {
      add_number(value);
    }
  }

  FittedColumn fit(const std::string& path) {
    FittedColumn fitted{.name = column_.name, .kind = column_.kind};
    if (column_.kind == ColumnKind::number) {
      fit_number(fitted, path);
    } else {
      fit_levels(fitted);
    }
    return fitted;
  }

 private:
  void add_number(float value) {
    ++numbers_;
    sum_ += double{value};
    low_ = std::min(low_, double{value});
    high_ = std::max(high_, double{value});
    if (recipe_.missing == Missing::median) values_.push_back(value);
  }

  void fit_number(FittedColumn& fitted, const std::string& path) {
    if (recipe_.missing == Missing::error && recipe_.scaling != Scaling::min_max) return;
    if (numbers_ == 0) {
      throw DataError(fmt::format("{}: column '{}' has no values in the training examples; leave the column out", path,
                                  column_.name));
    }
    fitted.low = low_;
    fitted.high = high_;
    if (recipe_.missing == Missing::mean) fitted.fill = sum_ / static_cast<double>(numbers_);
    if (recipe_.missing == Missing::median) fitted.fill = median();
  }

  /// For an even number of values, the mean of the middle two.
  double median() {
    const auto middle = values_.begin() + static_cast<std::ptrdiff_t>(values_.size() / 2);
    std::nth_element(values_.begin(), middle, values_.end());
    if (values_.size() % 2 == 1) return double{*middle};
    return (double{*std::max_element(values_.begin(), middle)} + double{*middle}) / 2;
  }

  void fit_levels(FittedColumn& fitted) const {
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      if (counts_[i] >= recipe_.minimum_frequency) {
        fitted.levels.push_back(column_.levels[i]);
      } else if (counts_[i] > 0) {
        fitted.other = recipe_.unknown == Unknown::other;
      }
    }
  }

  const RecipeColumn& column_;
  const Recipe& recipe_;
  std::vector<std::int64_t> counts_;  ///< of each level
  std::int64_t numbers_ = 0;
  double sum_ = 0, low_ = std::numeric_limits<double>::infinity(), high_ = -low_;
  std::vector<float> values_;  ///< for the median
};

std::vector<ColumnFigures> figures_of(const Recipe& recipe) {
  std::vector<ColumnFigures> figures;
  for (const RecipeColumn& column : recipe.columns) figures.emplace_back(column, recipe);
  return figures;
}

std::vector<FittedColumn> fit_all(std::vector<ColumnFigures>& figures, const std::string& path) {
  std::vector<FittedColumn> fitted;
  for (ColumnFigures& column : figures) fitted.push_back(column.fit(path));
  return fitted;
}

std::vector<FittedColumn> fit_on(const Recipe& recipe, const hdf5::File& file, const GroupSchema& group,
                                 const FileRows& rows) {
  constexpr std::int64_t kRowsAtATime = 1 << 14;
  const std::size_t width = recipe.columns.size();
  std::vector<ColumnFigures> figures = figures_of(recipe);
  std::vector<float> raw(static_cast<std::size_t>(std::min(rows.size(), kRowsAtATime)) * width);
  const Range all = rows.span({0, rows.size()});
  // Block by block of the file: runs of a random split are short.
  for (std::int64_t first = all.first, position = 0; first < all.last; first += kRowsAtATime) {
    const std::int64_t last = std::min(first + kRowsAtATime, all.last);
    raw.resize(static_cast<std::size_t>(last - first) * width);
    file.read_rows(group.features_path(), static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(last - first),
                   raw.data());
    for (; position < rows.size() && rows.row(position) < last; ++position) {
      const float* example = raw.data() + static_cast<std::size_t>(rows.row(position) - first) * width;
      for (std::size_t i = 0; i < width; ++i) figures[i].add(example[i]);
    }
  }
  return fit_all(figures, file.path());
}

}  // namespace

bool needs_values(const Recipe& recipe) {
  const bool categories = std::any_of(recipe.columns.begin(), recipe.columns.end(),
                                      [](const RecipeColumn& c) { return c.kind == ColumnKind::category; });
  return categories || recipe.missing != Missing::error || recipe.scaling == Scaling::min_max;
}

std::vector<FittedColumn> fit_columns(const Recipe& recipe, const hdf5::File& file, const GroupSchema& group,
                                      const FileRows& rows, Agreement& agreement) {
  Preprocessing fit;
  if (!needs_values(recipe)) {
    for (const RecipeColumn& column : recipe.columns) fit.columns.push_back({.name = column.name});
    return fit.columns;
  }
  const std::string text = agreement.first_does([&] {
    fit.columns = fit_on(recipe, file, group, rows);
    return to_json(fit);
  });
  return preprocessing_from_json(text, "the fitted recipe").columns;
}

std::vector<FittedColumn> fit_columns(const Recipe& recipe, std::span<const float> raw, const FileRows& rows,
                                      const std::string& path) {
  const std::size_t width = recipe.columns.size();
  std::vector<ColumnFigures> figures = figures_of(recipe);
  for (const FileRows::Run& run : rows.runs({0, rows.size()})) {
    for (std::int64_t row = run.first_row; row < run.first_row + run.rows; ++row) {
      const float* example = raw.data() + static_cast<std::size_t>(row) * width;
      for (std::size_t i = 0; i < width; ++i) figures[i].add(example[i]);
    }
  }
  return fit_all(figures, path);
}

Normalization scale_columns(const Recipe& recipe, const std::vector<FittedColumn>& columns,
                            const Normalization& standard) {
  Normalization scaled;
  for (const FittedColumn& column : columns) {
    for (std::int64_t i = 0; i < column.width(); ++i) {
      const std::size_t feature = scaled.mean.size();
      float mean = 0, scale = 1;
      if (column.kind == ColumnKind::number && recipe.scaling == Scaling::standard) {
        mean = standard.mean[feature];
        scale = standard.scale[feature];
      } else if (column.kind == ColumnKind::number && recipe.scaling == Scaling::min_max) {
        mean = static_cast<float>(column.low);
        if (column.high > column.low) scale = static_cast<float>(1 / (column.high - column.low));
      }
      scaled.mean.push_back(mean);
      scaled.scale.push_back(scale);
    }
  }
  return scaled;
}

}  // namespace unisono::data
