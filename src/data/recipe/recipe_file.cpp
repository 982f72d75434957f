#include "recipe/recipe_file.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <set>
#include <utility>

#include "unisono/base/errors.hpp"
#include "unisono/base/nesting.hpp"
#include "unisono/data/import.hpp"
#include "unisono/data/tokenizer.hpp"

namespace unisono::data {
namespace {

constexpr const char* kRecipe = "recipe";
constexpr std::uint64_t kMostBytes = 256 << 20;

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;

constexpr Named<ColumnKind> kKinds[] = {{ColumnKind::number, "number", "one feature"},
                                        {ColumnKind::category, "category", "one feature for each level"}};

template <typename Enum, std::size_t N>
Enum value_in(const Named<Enum> (&names)[N], const std::string& text) {
  for (const Named<Enum>& one : names) {
    if (text == one.name) return one.value;
  }
  throw DataError(fmt::format("'{}' is not known to this version", text));
}

/// What differs from the usual form.
Json form_json(const TableForm& form) {
  const TableForm usual;
  Json json = Json::object();
  if (form.delimiter != usual.delimiter) json["delimiter"] = form.delimiter;
  if (form.decimal != usual.decimal) json["decimal"] = form.decimal;
  if (form.thousands != usual.thousands) json["thousands"] = form.thousands;
  if (form.missing_values != usual.missing_values) json["missing_values"] = form.missing_values;
  if (form.encoding != usual.encoding) json["encoding"] = name_of(form.encoding, kEncodings);
  return json;
}

TableForm form_of(const Json& json) {
  TableForm form;
  form.delimiter = json.value("delimiter", form.delimiter);
  form.decimal = json.value("decimal", form.decimal);
  form.thousands = json.value("thousands", form.thousands);
  form.missing_values = json.value("missing_values", form.missing_values);
  if (json.contains("encoding")) form.encoding = value_in(kEncodings, json.at("encoding"));
  return form;
}

Json form_json(const ImageForm& form) {
  Json json = {{"height", form.height},
               {"width", form.width},
               {"fit", name_of(form.fit, kFits)},
               {"colours", name_of(form.colours, kColours)}};
  if (form.centre != ImageForm{}.centre) json["centre"] = form.centre;
  return json;
}

std::int64_t whole_number(const Json& json) {
  if (!json.is_number_integer()) throw Json::type_error::create(302, "a whole number is expected", &json);
  return json.get<std::int64_t>();
}

ImageForm image_form_of(const Json& json) {
  ImageForm form{.height = whole_number(json.at("height")),
                 .width = whole_number(json.at("width")),
                 .fit = value_in(kFits, json.at("fit")),
                 .colours = value_in(kColours, json.at("colours")),
                 .centre = json.value("centre", ImageForm{}.centre)};
  require_size(form);
  return form;
}

Json dates_json(const std::vector<DateColumn>& dates) {
  Json all = Json::array();
  for (const DateColumn& date : dates)
    all.push_back({{"name", date.name}, {"order", name_of(date.order, kDateOrders)}, {"hours", date.hours}});
  return all;
}

std::vector<DateColumn> dates_of(const Json& json) {
  std::vector<DateColumn> dates;
  for (const Json& entry : json)
    dates.push_back({entry.at("name"), value_in(kDateOrders, entry.at("order")), entry.at("hours").get<bool>()});
  return dates;
}

Json recipe_json(const Recipe& recipe) {
  Json columns = Json::array();
  for (const RecipeColumn& column : recipe.columns) {
    Json entry = {{"name", column.name}, {"kind", name_of(column.kind, kKinds)}};
    if (column.kind == ColumnKind::category) entry["levels"] = column.levels;
    columns.push_back(std::move(entry));
  }
  Json json = {{"format", "unisono recipe"}, {"version", kVersion}};
  if (recipe.base) json["base"] = *recipe.base;
  if (recipe.images) json["images"] = form_json(*recipe.images);
  if (recipe.columns.empty()) {
    if (recipe.scaling != Scaling::none) json["scaling"] = name_of(recipe.scaling, kScalings);
    if (!recipe.text.empty()) {
      json.update({{"text", recipe.text}, {"label", recipe.label}, {"header", recipe.header}});
      if (recipe.form != TableForm{}) json["form"] = form_json(recipe.form);
    }
    return json;
  }
  json.update({{"header", recipe.header},
               {"fields", recipe.fields},
               {"missing", name_of(recipe.missing, kMissing)},
               {"unknown", name_of(recipe.unknown, kUnknown)},
               {"minimum_frequency", recipe.minimum_frequency},
               {"scaling", name_of(recipe.scaling, kScalings)},
               {"label", recipe.label},
               {"target", recipe.target},
               {"columns", std::move(columns)}});
  if (!recipe.dates.empty()) json["dates"] = dates_json(recipe.dates);
  if (recipe.form != TableForm{}) json["form"] = form_json(recipe.form);
  return json;
}

/// Columns are found by their names, and levels by theirs.
void require_distinct(const Recipe& recipe) {
  std::set<std::string> columns;
  for (const RecipeColumn& column : recipe.columns) {
    if (!columns.insert(column.name).second) throw DataError(fmt::format("two columns are named '{}'", column.name));
    const std::set<std::string> levels(column.levels.begin(), column.levels.end());
    if (levels.size() == column.levels.size()) continue;
    throw DataError(fmt::format("column '{}' has the same category twice", column.name));
  }
}

/// A column of dates has all of its features among the columns.
void require_date_features(const Recipe& recipe) {
  std::set<std::string> numbers;
  for (const RecipeColumn& column : recipe.columns) {
    if (column.kind == ColumnKind::number) numbers.insert(column.name);
  }
  for (const DateColumn& date : recipe.dates) {
    for (const std::string& feature : date.features()) {
      if (!numbers.contains(feature)) throw DataError(fmt::format("there is no column '{}'", feature));
    }
  }
}

Recipe recipe_of(const Json& json) {
  if (json.at("version") != kVersion) {
    throw DataError(
        fmt::format("has version {}, but this unisono reads version {}", json.at("version").dump(), kVersion));
  }
  Recipe recipe;
  if (json.contains("base")) recipe.base = json.at("base").get<std::int64_t>();
  if (json.contains("images")) recipe.images = image_form_of(json.at("images"));
  if (!json.contains("columns")) {
    if (json.contains("scaling")) recipe.scaling = value_in(kSparseScalings, json.at("scaling"));
    if (!json.contains("text")) return recipe;
    json.at("text").get_to(recipe.text);
    json.at("label").get_to(recipe.label);
    json.at("header").get_to(recipe.header);
    if (json.contains("form")) recipe.form = form_of(json.at("form"));
    return recipe;
  }
  json.at("header").get_to(recipe.header);
  json.at("fields").get_to(recipe.fields);
  recipe.missing = value_in(kMissing, json.at("missing"));
  recipe.unknown = value_in(kUnknown, json.at("unknown"));
  json.at("minimum_frequency").get_to(recipe.minimum_frequency);
  recipe.scaling = value_in(kScalings, json.at("scaling"));
  json.at("label").get_to(recipe.label);
  json.at("target").get_to(recipe.target);
  if (json.contains("form")) recipe.form = form_of(json.at("form"));
  for (const Json& entry : json.at("columns")) {
    RecipeColumn column{.name = entry.at("name"), .kind = value_in(kKinds, entry.at("kind"))};
    if (column.kind == ColumnKind::category) entry.at("levels").get_to(column.levels);
    recipe.columns.push_back(std::move(column));
  }
  if (json.contains("dates")) recipe.dates = dates_of(json.at("dates"));
  require_distinct(recipe);
  require_date_features(recipe);
  return recipe;
}

Json column_json(const FittedColumn& column) {
  Json json = {{"name", column.name}, {"kind", name_of(column.kind, kKinds)}};
  if (column.kind == ColumnKind::category) {
    json["levels"] = column.levels;
    json["other"] = column.other;
    return json;
  }
  if (column.fill) json["fill"] = *column.fill;
  json["low"] = column.low;
  json["high"] = column.high;
  return json;
}

FittedColumn column_of(const Json& json) {
  FittedColumn column{.name = json.at("name"), .kind = value_in(kKinds, json.at("kind"))};
  if (column.kind == ColumnKind::category) {
    json.at("levels").get_to(column.levels);
    json.at("other").get_to(column.other);
    return column;
  }
  if (json.contains("fill")) column.fill = json.at("fill").get<double>();
  json.at("low").get_to(column.low);
  json.at("high").get_to(column.high);
  return column;
}

std::string hexadecimal(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

std::string bytes_of(const std::string& hexadecimal) {
  const auto digit = [](char c) {
    const std::size_t found = std::string_view("0123456789abcdef").find(c);
    if (found == std::string_view::npos) throw DataError("the model of the tokenizer is damaged");
    return found;
  };
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hexadecimal.size(); i += 2)
    bytes += static_cast<char>(16 * digit(hexadecimal[i]) + digit(hexadecimal[i + 1]));
  return bytes;
}

Json tokenizer_json(const TokenizerParts& parts) {
  Json json = {{"kind", name_of(parts.kind, kTokenizers)}};
  if (parts.end_of_text) json["end_of_text"] = true;
  if (!parts.vocabulary.empty()) json["vocabulary"] = parts.vocabulary;
  if (!parts.merges.empty()) json["merges"] = parts.merges;
  if (!parts.model.empty()) json["model"] = hexadecimal(parts.model);
  return json;
}

std::shared_ptr<const TokenizerParts> tokenizer_of(const Json& json) {
  TokenizerParts parts{.kind = value_in(kTokenizers, json.at("kind"))};
  parts.end_of_text = json.value("end_of_text", false);
  parts.vocabulary = json.value("vocabulary", parts.vocabulary);
  parts.merges = json.value("merges", parts.merges);
  parts.model = bytes_of(json.value("model", ""));
  return std::make_shared<const TokenizerParts>(std::move(parts));
}

/// Runs a reader of JSON; what it throws names `where`.
template <typename Read>
auto read_json(const std::string& text, const std::string& where, Read read) {
  shallow_json(text, where);
  try {
    return read(Json::parse(text));
  } catch (const nlohmann::json::exception& error) {
    throw DataError(fmt::format("{} cannot be read: {}", where, error.what()));
  } catch (const DataError& error) {
    throw DataError(fmt::format("{}: {}", where, error.what()));
  }
}

}  // namespace

Recipe read_recipe(const hdf5::File& file) {
  if (!file.exists(kRecipe)) return {};
  const std::string where = fmt::format("{}: /{}", file.path(), kRecipe);
  const hdf5::DatasetShape shape = file.is_dataset(kRecipe) ? file.shape(kRecipe) : hdf5::DatasetShape{};
  if (shape.type != hdf5::Type::uint8 || shape.extent.size() != 1 || shape.rows() > kMostBytes || !shape.complete) {
    throw DataError(where + " is not a valid recipe; import the set again");
  }
  const auto bytes = file.read<std::uint8_t>(kRecipe);
  return recipe_from_json(std::string(bytes.begin(), bytes.end()), where);
}

void write_recipe(hdf5::File& file, const Recipe& recipe) {
  const std::string text = to_json(recipe);
  file.write(kRecipe, std::vector<std::uint8_t>(text.begin(), text.end()));
}

std::vector<std::string> DateColumn::features() const {
  std::vector<std::string> names;
  for (const char* part : {"year", "month", "weekday", "days"}) names.push_back(name + "." + part);
  if (hours) names.push_back(name + ".hour");
  return names;
}

std::vector<std::string> Preprocessing::encoded_names() const {
  std::vector<std::string> names;
  for (const FittedColumn& column : columns) {
    if (column.kind == ColumnKind::number) names.push_back(column.name);
    for (const std::string& level : column.levels) {
      names.push_back(fmt::format("{}={}", column.name, level.empty() ? "(missing)" : level));
    }
    if (column.other) names.push_back(column.name + "=other");
  }
  return names;
}

std::string to_json(const Recipe& recipe) { return recipe_json(recipe).dump(); }

std::string to_json(const Preprocessing& preprocessing) {
  Json columns = Json::array();
  for (const FittedColumn& column : preprocessing.columns) columns.push_back(column_json(column));
  Json json = {{"recipe", recipe_json(preprocessing.recipe)},
               {"columns", std::move(columns)},
               {"class_names", preprocessing.class_names},
               {"feature_names", preprocessing.feature_names},
               {"bytes", preprocessing.bytes},
               {"scale", preprocessing.scale},
               {"offset", preprocessing.offset}};
  if (!preprocessing.label_names.empty()) json["label_names"] = preprocessing.label_names;
  if (!preprocessing.untrained_classes.empty()) json["untrained_classes"] = preprocessing.untrained_classes;
  if (preprocessing.tokenizer) json["tokenizer"] = tokenizer_json(*preprocessing.tokenizer);
  return json.dump();
}

Recipe recipe_from_json(const std::string& text, const std::string& where) { return read_json(text, where, recipe_of); }

Preprocessing preprocessing_from_json(const std::string& text, const std::string& where) {
  return read_json(text, where, [](const Json& json) {
    Preprocessing read;
    read.recipe = recipe_of(json.at("recipe"));
    for (const Json& column : json.at("columns")) read.columns.push_back(column_of(column));
    json.at("class_names").get_to(read.class_names);
    if (json.contains("label_names")) json.at("label_names").get_to(read.label_names);
    json.at("feature_names").get_to(read.feature_names);
    json.at("bytes").get_to(read.bytes);
    json.at("scale").get_to(read.scale);
    json.at("offset").get_to(read.offset);
    if (json.contains("untrained_classes")) json.at("untrained_classes").get_to(read.untrained_classes);
    if (json.contains("tokenizer")) read.tokenizer = tokenizer_of(json.at("tokenizer"));
    read.known = true;
    return read;
  });
}

}  // namespace unisono::data
