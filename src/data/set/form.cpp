#include "set/form.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "recipe/encoder.hpp"
#include "recipe/fit.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

constexpr const char* kImportAgain = "import the raw data with 'unisono data import csv' and train on that set";

/// The recipe of a set that has none but names its features: all columns are numbers.
Recipe recipe_of_names(const std::vector<std::string>& names) {
  Recipe recipe;
  for (const std::string& name : names) recipe.columns.push_back({.name = name});
  return recipe;
}

void require_recipe(const Preprocessing& trained, SetSchema& schema) {
  const bool numbers = std::all_of(trained.columns.begin(), trained.columns.end(),
                                   [](const FittedColumn& c) { return c.kind == ColumnKind::number; });
  const GroupSchema& group = schema.any_group();
  if (numbers && schema.feature_names.size() == static_cast<std::size_t>(group.features.size()) && group.scale == 1 &&
      group.offset == 0) {
    schema.recipe = recipe_of_names(schema.feature_names);
    return;
  }
  throw DataError(
      fmt::format("{}: has no recipe with column names, but the model was trained on named columns; use the raw file "
                  "with --input, or import it with 'unisono data import csv'",
                  schema.path));
}

void require_same_features(const Preprocessing& trained, const SetSchema& schema) {
  const auto &there = schema.feature_names, &known = trained.feature_names;
  if (there.empty() || known.empty() || there.size() != known.size()) return;  // sizes are compared elsewhere
  const auto [name, other] = std::mismatch(there.begin(), there.end(), known.begin());
  if (name == there.end()) return;
  throw DataError(fmt::format("{}: feature {} is '{}', but '{}' in the training set; put the features in that order",
                              schema.path, name - there.begin() + 1, *name, *other));
}

void require_same_scale(const Preprocessing& trained, const SetSchema& schema) {
  for (const auto& group : schema.groups) {
    if (!group || !trained.bytes || group->storage != Storage::uint8) continue;
    if (group->scale == trained.scale && group->offset == trained.offset) continue;
    throw DataError(
        fmt::format("{}: /{} holds bytes that stand for {:g} · byte + {:g}, but in the training set they stood for "
                    "{:g} · byte + {:g}; set the attributes scale and offset",
                    schema.path, group->features_path(), group->scale, group->offset, trained.scale, trained.offset));
  }
}

Preprocessing described_by(const SetSchema& schema) {
  const GroupSchema& group = schema.any_group();
  Preprocessing own;
  own.recipe = schema.recipe;
  own.class_names = schema.class_names;
  own.feature_names = schema.feature_names;
  own.bytes = !group.raw && group.storage == Storage::uint8;
  own.scale = group.scale;
  own.offset = group.offset;
  own.known = true;
  // These are all levels in the set; the levels of the training examples are fitted later.
  for (RecipeColumn& column : own.recipe.columns) column.levels.clear();
  return own;
}

void install(SetSchema& schema, const Preprocessing& preprocessing) {
  const auto encoder = std::make_shared<const Encoder>(preprocessing, schema.recipe, schema.path);
  for (auto& group : schema.groups) {
    if (!group) continue;
    group->raw = false;
    group->storage = Storage::float32;
    group->encoder = encoder;
    group->features = {encoder->width(), 1, 1};
  }
}

void rename_classes(SetPlan& plan, const Preprocessing& trained) {
  const std::vector<std::int32_t> classes = classes_of(trained.class_names, plan.schema.class_names);
  if (classes.empty()) return;
  for (auto& group : plan.schema.groups) {
    if (!group || !group->has_labels) continue;
    group->classes = classes;
    group->class_names = plan.schema.class_names;
  }
}

}  // namespace

Index most_features(const Recipe& recipe) {
  Index most = 0;
  for (const RecipeColumn& column : recipe.columns) {
    most += column.kind == ColumnKind::number ? 1 : static_cast<Index>(column.levels.size()) + 1;
  }
  return most;
}

void reserve_features(SetSchema& schema, const Preprocessing* trained) {
  if (trained != nullptr) require_form(*trained, schema);
  if (schema.recipe.columns.empty()) return;
  Index features = most_features(schema.recipe);
  if (trained != nullptr) {
    features = 0;
    for (const FittedColumn& column : trained->columns) features += column.width();
  }
  for (auto& group : schema.groups) {
    if (group) group->features = {features, 1, 1};
  }
}

std::vector<std::int32_t> classes_of(const std::vector<std::string>& trained, const std::vector<std::string>& stored) {
  if (trained.empty() || stored.empty() || trained == stored) return {};
  const LevelIndex known(trained);
  std::vector<std::int32_t> classes;
  for (const std::string& name : stored) {
    const auto found = known.find(name);
    classes.push_back(found ? static_cast<std::int32_t>(*found) : -1);
  }
  return classes;
}

void require_form(const Preprocessing& trained, SetSchema& schema) {
  if (!trained.columns.empty() && schema.recipe.columns.empty()) require_recipe(trained, schema);
  if (trained.columns.empty() && !schema.recipe.columns.empty()) {
    throw DataError(
        fmt::format("{}: holds raw columns, but the model was trained on a set without a preprocessing recipe "
                    "(imported by an earlier version or written by another program), so they cannot be converted; {}",
                    schema.path, kImportAgain));
  }
  if (!trained.known) return;
  if (trained.columns.empty()) require_same_features(trained, schema);
  require_same_scale(trained, schema);
}

void settle_form(SetPlan& plan, const hdf5::File& file, const Preprocessing* trained, Agreement& agreement) {
  SetSchema& schema = plan.schema;
  plan.preprocessing = trained != nullptr ? *trained : described_by(schema);
  if (!schema.recipe.columns.empty()) {
    if (trained == nullptr) {
      plan.preprocessing.columns =
          fit_columns(schema.recipe, file, *plan.group(Split::train), plan.rows(Split::train), agreement);
    }
    agreement.all_do([&] { install(schema, plan.preprocessing); });
  }
  if (trained != nullptr) rename_classes(plan, *trained);
}

}  // namespace unisono::data
