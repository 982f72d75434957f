#include "checkpoint/other_form.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace unisono::session {
namespace {

constexpr double kRounding = 1e-3;  // relative to a standard deviation or a scale

bool differ(const data::Normalization& before, const data::Normalization& now) {
  if (before.mean.size() != now.mean.size() || before.scale.size() != now.scale.size()) return true;
  for (std::size_t i = 0; i < now.scale.size(); ++i) {
    const double scale = now.scale[i];
    if (std::abs(before.scale[i] - scale) > kRounding * std::abs(scale)) return true;
    if (i < now.mean.size() && std::abs(double{before.mean[i]} - now.mean[i]) * std::abs(scale) > kRounding)
      return true;
  }
  return false;
}

bool have_other_levels(const data::FittedColumn& before, const data::FittedColumn& now) {
  return before.kind != now.kind || before.levels != now.levels || before.other != now.other;
}

/// A value to fill in, measured in standard deviations where those are known.
bool have_other_fill(const data::FittedColumn& before, const data::FittedColumn& now) {
  if (!before.fill || !now.fill) return false;  // nothing was missing in the training examples
  const double range = std::max(std::abs(*now.fill), now.high - now.low);
  return std::abs(*before.fill - *now.fill) > kRounding * range;
}

std::vector<std::string> names_of_features(const data::Preprocessing& preprocessing) {
  return preprocessing.columns.empty() ? preprocessing.feature_names : preprocessing.encoded_names();
}

}  // namespace

std::string other_feature(const data::Preprocessing& before, const data::Preprocessing& now) {
  const auto there = names_of_features(before), here = names_of_features(now);
  if (there.empty() || here.empty() || there.size() != here.size()) return "";
  const auto [old_name, name] = std::mismatch(there.begin(), there.end(), here.begin());
  if (name == here.end()) return "";
  return fmt::format("feature {} is '{}', but '{}' there", name - here.begin() + 1, *name, *old_name);
}

std::string other_form(const data::Preprocessing& before, const data::Preprocessing& now) {
  if (before.known) {
    if (before.columns.size() != now.columns.size()) return "the columns";
    for (std::size_t i = 0; i < now.columns.size(); ++i) {
      const data::FittedColumn &old_column = before.columns[i], &column = now.columns[i];
      if (old_column.name != column.name) return "the order or names of the columns";
      if (have_other_levels(old_column, column)) return fmt::format("the categories of column '{}'", column.name);
      if (have_other_fill(old_column, column)) return fmt::format("what replaces missing values of '{}'", column.name);
    }
    if (!other_feature(before, now).empty()) return "the order or names of the features";
    const auto &old_base = before.recipe.base, &base = now.recipe.base;
    if (old_base && base && *old_base != *base) return "the index of the first column";
    const bool named = !before.class_names.empty() && !now.class_names.empty();
    if (named && before.class_names != now.class_names) return "the names of the classes";
  }
  return differ(before.normalization, now.normalization) ? "the scaling of the features" : "";
}

}  // namespace unisono::session
