#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dense/feature_writer.hpp"
#include "import/csv_columns.hpp"
#include "import/csv_split.hpp"
#include "import/raw_formats.hpp"
#include "import/rows.hpp"
#include "import/set_writer.hpp"
#include "import/text_table.hpp"
#include "recipe/encoder.hpp"
#include "recipe/recipe_file.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/data/unseen.hpp"

namespace unisono::data {
namespace {

constexpr std::size_t kRowsAtATime = 4096;
constexpr std::size_t kMostNames = 4000;  // an attribute of HDF5 holds 64 KiB: 16 bytes a name

/// Collects the rows of one group, and writes them some thousands at a time.
class GroupWriter {
 public:
  /// Makes no group where there are no rows.
  GroupWriter(SetWriter& writer, const CsvTable& table, Split split, std::int64_t rows);
  void add(const CsvRow& row);
  void finish();

 private:
  void flush();

  SetWriter& writer_;
  std::string name_;
  std::size_t width_;
  std::int64_t rows_, written_ = 0;
  std::vector<float> features_;
  std::size_t labels_of_row_;  ///< several labels that a row may have; 0: there are none
  std::vector<std::uint8_t> flags_;
  // The columns that the table has.
  std::optional<ColumnWriter<std::int64_t>> labels_, groups_;
  std::optional<ColumnWriter<float>> targets_, weights_;
  std::optional<ColumnWriter<double>> times_;
};

GroupWriter::GroupWriter(SetWriter& writer, const CsvTable& table, Split split, std::int64_t rows)
    : writer_(writer),
      name_(name_of(split)),
      width_(table.feature_names().size()),
      rows_(rows),
      labels_of_row_(table.label_names().size()) {
  if (rows == 0) return;
  writer_.create_features<float>(name_, rows, {static_cast<std::int64_t>(width_)});
  if (width_ <= kMostNames) writer_.file().write_attribute(name_ + "/features", "feature_names", table.feature_names());
  if (labels_of_row_ > 0) {
    writer_.file().create<std::uint8_t>(name_ + "/targets", {static_cast<std::uint64_t>(rows), labels_of_row_});
  }
  const auto make = [&](auto& column, ColumnRole role, const char* name) {
    if (table.column_of(role) != nullptr) column.emplace(writer, name_ + name, static_cast<std::uint64_t>(rows));
  };
  make(labels_, ColumnRole::label, "/labels");
  make(targets_, ColumnRole::target, "/targets");
  make(groups_, ColumnRole::group, "/groups");
  make(times_, ColumnRole::time, "/times");
  make(weights_, ColumnRole::weight, "/weights");
}

void GroupWriter::add(const CsvRow& row) {
  features_.insert(features_.end(), row.features.begin(), row.features.end());
  flags_.insert(flags_.end(), row.flags.begin(), row.flags.end());
  if (labels_) labels_->add(row.label);
  if (targets_) targets_->add(row.target);
  if (groups_) groups_->add(row.group);
  if (times_) times_->add(row.time);
  if (weights_) weights_->add(row.weight);
  if (features_.size() >= kRowsAtATime * width_) flush();
}

void GroupWriter::flush() {
  const auto count = static_cast<std::int64_t>(features_.size() / width_);
  writer_.write_features(name_, written_, count, features_.data());
  if (labels_of_row_ > 0) {
    writer_.file().write_rows(name_ + "/targets", static_cast<std::uint64_t>(written_),
                              static_cast<std::uint64_t>(count), flags_.data());
  }
  written_ += count;
  features_.clear();
  flags_.clear();
}

void GroupWriter::finish() {
  if (rows_ == 0) return;
  flush();
  if (labels_) labels_->finish();
  if (targets_) targets_->finish();
  if (groups_) groups_->finish();
  if (times_) times_->finish();
  if (weights_) weights_->finish();
}

using VisitExample = std::function<void(Split, CsvRow&)>;

void for_each_example(const CsvTable& table, const TableDivision& split, const OpenText& open,
                      const OpenText& open_test, const VisitExample& visit) {
  CsvRow row;
  std::int64_t number = 0;
  read_rows(*open(), csv_rows(table.dialect), [&](const LineReader& line, const auto& fields) {
    encode_row(table, line, fields, row);
    visit(split.of(number++), row);
  });
  if (!open_test) return;
  read_rows(*open_test(), csv_rows(table.dialect), [&](const LineReader& line, const auto& fields) {
    encode_row(table, line, fields, row);
    visit(Split::test, row);
  });
}

ImportSummary summarize(const CsvTable& table, const TableDivision& split, const std::string& path) {
  ImportSummary summary;
  summary.path = path;
  summary.train = split.size(Split::train);
  summary.validation = split.size(Split::validation);
  summary.test = split.size(Split::test) + table.test_rows;
  summary.feature_names = table.feature_names();
  summary.columns = describe_columns(table);
  summary.delimiter = std::string(1, table.dialect.delimiter);
  summary.header = table.dialect.header;
  summary.split = split.way();
  summary.empty_rows = table.left_out.empty;
  summary.unlabelled_rows = table.left_out.unlabelled;
  summary.shape = {static_cast<std::int64_t>(summary.feature_names.size())};
  if (const CsvColumn* label = table.column_of(ColumnRole::label))
    summary.classes = static_cast<std::int64_t>(label->texts.size());
  summary.several_labels = std::ssize(table.label_names());
  summary.targets = table.column_of(ColumnRole::target) != nullptr;
  return summary;
}

void write_recipe(const CsvTable& table, SetWriter& writer) {
  write_recipe(writer.file(), table.recipe);
  if (const CsvColumn* label = table.column_of(ColumnRole::label)) {
    writer.file().write_attribute("", "class_names", label->texts);
    writer.file().write_attribute("", "label_name", label->name);
  }
  if (const auto labels = table.label_names(); !labels.empty()) {
    writer.file().write_attribute("", "label_names", labels);
  }
  if (const CsvColumn* target = table.column_of(ColumnRole::target))
    writer.file().write_attribute("", "target_name", target->name);
}

}  // namespace

std::string write_raw_table(const std::string& path, const Preprocessing& trained, const ImportOutput& output) {
  const OpenText open = text_of(path, trained.recipe.form.encoding);
  const CsvTable table = scan_table_for(open, trained);
  SetWriter writer(output);
  GroupWriter group(writer, table, Split::test, table.rows);
  CsvRow row;
  read_rows(*open(), csv_rows(table.dialect), [&](const LineReader& line, const auto& fields) {
    encode_row(table, line, fields, row);
    group.add(row);
  });
  group.finish();
  write_recipe(table, writer);
  writer.finish();
  return table.unusable_label;
}

namespace {

OpenText text_in_memory(std::string_view text, const std::string& name, const Preprocessing& trained) {
  return [text, &name, encoding = trained.recipe.form.encoding] {
    return std::make_unique<LineReader>(as_utf8(bytes_of(text, name), encoding));
  };
}

}  // namespace

void check_names_of_table(std::string_view line, const std::string& name, const RawForm& form) {
  columns_for(text_in_memory(line, name, form.preprocessing), form.preprocessing);
}

std::vector<float> features_of_table(std::string_view text, const std::string& name, const RawForm& form) {
  const Preprocessing& trained = form.preprocessing;
  const OpenText open = text_in_memory(text, name, trained);
  const CsvTable table = scan_table_for(open, trained);
  const Encoder encoder(trained, table.recipe, name);
  const auto width = static_cast<std::size_t>(encoder.width());
  std::vector<float> features;
  CsvRow row;
  std::int64_t number = 0;
  read_rows(*open(), csv_rows(table.dialect), [&](const LineReader& line, const auto& fields) {
    encode_row(table, line, fields, row);
    features.resize(features.size() + width);
    encoder.encode(row.features.data(), features.data() + features.size() - width, name, number++);
  });
  return features_of_values(features, form);
}

std::vector<float> features_of_values(std::span<const float> stored, const RawForm& form) {
  const Preprocessing& trained = form.preprocessing;
  GroupSchema group;
  group.features = form.features;
  group.scale = trained.scale;
  group.offset = trained.offset;
  const FeatureWriter writer(group, trained.normalization);
  const auto size = static_cast<std::size_t>(form.features.size());
  std::vector<float> features(stored.size());
  for (std::size_t first = 0; first < stored.size(); first += size) {
    writer.write(std::as_bytes(stored.subspan(first)).data(), features.data() + first);
  }
  return features;
}

std::vector<std::vector<std::string>> read_raw_columns(const std::string& input, const Preprocessing& preprocessing,
                                                       const std::vector<std::string>& names) {
  if (!preprocessing.recipe.text.empty()) return table_for(input, preprocessing.recipe).columns("keep", names);
  const OpenText open = text_of(input, preprocessing.recipe.form.encoding);
  const CsvTable table = scan_table_for(open, preprocessing);
  const std::vector<std::string> known = names_of(table.columns);
  std::vector<std::size_t> places;
  for (const std::string& name : names) {
    const auto found = std::find(known.begin(), known.end(), name);
    if (found == known.end()) {
      const std::string nearest = nearest_name(name, known);
      throw ConfigError(fmt::format("--keep {}: {} has no such column; it has {}{}", name, input, listed(known),
                                    nearest.empty() ? "" : fmt::format("; is it '{}'?", nearest)));
    }
    places.push_back(static_cast<std::size_t>(found - known.begin()));
  }
  std::vector<std::vector<std::string>> rows;
  read_rows(*open(), csv_rows(table.dialect), [&](const LineReader&, const auto& fields) {
    std::vector<std::string>& row = rows.emplace_back();
    for (const std::size_t place : places) row.push_back(fields[place]);
  });
  return rows;
}

// The table is read twice, and once more where rows are not divided at random: it may be larger than memory.
ImportSummary import_csv(const std::vector<std::string>& paths, const CsvOptions& options, const ImportOutput& output) {
  check_shares(shares_of(options), "rows", options.test_file);
  const OpenText open = text_of(paths, options.form.encoding);
  const OpenText open_test = options.test_file.empty() ? OpenText() : text_of(options.test_file, options.form.encoding);
  check_split(options);
  const CsvTable table = scan_table(open, open_test, options);
  const TableDivision split(table, open, options);
  ImportSummary summary = summarize(table, split, output.path);
  if (summary.train == 0)
    throw DataError(fmt::format("{}: no rows are left for training (there are {}); use smaller fractions",
                                paths.front(), table.rows));

  SetWriter writer(output);
  std::array<GroupWriter, 3> groups = {GroupWriter(writer, table, Split::train, summary.train),
                                       GroupWriter(writer, table, Split::validation, summary.validation),
                                       GroupWriter(writer, table, Split::test, summary.test)};
  ClassCounts counts(static_cast<std::size_t>(std::max(summary.classes, summary.several_labels)));
  for_each_example(table, split, open, open_test, [&](Split to, CsvRow& row) {
    groups[static_cast<std::size_t>(to)].add(row);
    counts.add(to, row.label);
    for (std::size_t k = 0; k < row.flags.size(); ++k) {
      if (row.flags[k] > 0) counts.add(to, static_cast<std::int64_t>(k));
    }
  });
  for (GroupWriter& group : groups) group.finish();
  write_recipe(table, writer);
  writer.finish();
  if (const CsvColumn* label = table.column_of(ColumnRole::label)) {
    summary.warnings = counts.warnings(output.path, label->texts, "row");
  } else {
    summary.warnings = counts.untrained_labels(output.path, table.label_names(), "row");
  }
  return summary;
}

// Tables for a trained model: what each column is, the model knows.

namespace {

std::vector<std::string> fields_of_first_line(const OpenText& open, char delimiter) {
  const auto lines = open();
  lines->join_quoted(delimiter);
  std::string text;
  std::vector<std::string> fields;
  try {
    if (lines->next(text)) split_line(*lines, text, delimiter, fields);
  } catch (const DataError&) {
    fields.clear();  // this delimiter does not separate them
  }
  return fields;
}

/// The column of dates that a feature is made of; null: it is a column itself.
const DateColumn* date_of(const std::string& feature, const Recipe& recipe) {
  for (const DateColumn& date : recipe.dates) {
    if (std::ranges::count(date.features(), feature) > 0) return &date;
  }
  return nullptr;
}

/// The columns that the model's features are made of.
std::vector<std::string> wanted_names(const Preprocessing& trained) {
  std::vector<std::string> names;
  for (const FittedColumn& column : trained.columns) {
    const DateColumn* const date = date_of(column.name, trained.recipe);
    if (date == nullptr) {
      names.push_back(column.name);
    } else if (std::ranges::count(names, date->name) == 0) {
      names.push_back(date->name);
    }
  }
  return names;
}

/// How many of a first line's fields name columns that the model wants.
std::int64_t count_names(const std::vector<std::string>& first, const Preprocessing& trained) {
  const std::vector<std::string> wanted = wanted_names(trained);
  return std::count_if(first.begin(), first.end(), [&](const std::string& field) {
    return std::find(wanted.begin(), wanted.end(), field) != wanted.end();
  });
}

/// The names in the first line show what separates them; where it has none, the number of fields may.
CsvDialect dialect_for(const OpenText& open, const Preprocessing& trained) {
  TableForm form = trained.recipe.form;
  std::vector<std::string> delimiters = {",", ";", "tab", "|", " "};
  if (form.delimiter != "auto") delimiters.insert(delimiters.begin(), form.delimiter);
  std::string named, placed;
  std::int64_t most = 0, places = 0;
  for (const std::string& delimiter : delimiters) {
    form.delimiter = delimiter;
    const std::vector<std::string> first = fields_of_first_line(open, parse_delimiter(delimiter));
    const std::int64_t names = count_names(first, trained);
    if (names > most) named = delimiter;
    most = std::max(most, names);
    if (std::ssize(first) != trained.recipe.fields) continue;
    placed = delimiter;
    ++places;
  }
  form.delimiter = !named.empty() ? named : trained.recipe.form.delimiter;
  if (form.delimiter == "auto" && places == 1) form.delimiter = placed;
  CsvDialect dialect = detect_dialect(open, form, Header::no);
  dialect.header = !named.empty();
  return dialect;
}

/// Columns without names are those of the training table by their places; what was to be predicted may be missing if
/// it was last.
void require_places(const OpenText& open, const CsvTable& table, const Preprocessing& trained) {
  const Recipe& recipe = trained.recipe;
  if (recipe.header) {
    throw DataError(
        fmt::format("{}: the first line has none of the column names that the model was trained on ({}); add a header "
                    "line with these names",
                    open()->name(), listed(wanted_names(trained))));
  }
  const auto fields = static_cast<std::int64_t>(table.dialect.columns);
  const std::string last = fmt::format("column{}", recipe.fields);
  const bool answer_is_last = recipe.label == last || recipe.target == last;
  if (fields == recipe.fields || (answer_is_last && fields == recipe.fields - 1)) return;
  throw DataError(fmt::format(
      "{}: has {} columns without names, but the training table had {}; use the same columns in the same order",
      open()->name(), fields, recipe.fields));
}

void give_trained_role(CsvColumn& column, const Preprocessing& trained) {
  for (const DateColumn& date : trained.recipe.dates) {
    if (date.name != column.name) continue;
    column.role = ColumnRole::date;
    column.date = date;
    return;
  }
  const auto fitted = std::ranges::find(trained.columns, column.name, &FittedColumn::name);
  column.role = fitted->kind == ColumnKind::number ? ColumnRole::number : ColumnRole::words;
}

/// What is wrong where a label of the model has no column, or several.
std::string not_one_column(const std::string& path, const std::string& label, const std::vector<std::string>& names) {
  return std::ranges::count(names, label) == 0
             ? fmt::format("{}: has no column '{}', which is a label of the model", path, label)
             : fmt::format("{}: two columns are named '{}'", path, label);
}

void give_trained_roles(const OpenText& open, CsvTable& table, const Preprocessing& trained) {
  const std::vector<std::string> names = names_of(table.columns);
  for (const std::string& wanted : wanted_names(trained)) {
    const auto count = std::ranges::count(names, wanted);
    if (count > 1) throw DataError(fmt::format("{}: two columns are named '{}'", open()->name(), wanted));
    if (count == 0) fail_without_column(open()->name(), wanted, names);
    give_trained_role(table.columns[static_cast<std::size_t>(std::ranges::find(names, wanted) - names.begin())],
                      trained);
  }
  const auto is_there = [&](const std::string& label) { return std::ranges::count(names, label) == 1; };
  const auto absent = std::ranges::find_if_not(trained.label_names, is_there);
  const bool has_flags = absent == trained.label_names.end();
  bool answered = false;
  for (CsvColumn& column : table.columns) {
    const bool label = !trained.recipe.label.empty() && column.name == trained.recipe.label;
    const bool target = !trained.recipe.target.empty() && column.name == trained.recipe.target;
    if (std::ranges::count(trained.label_names, column.name) > 0) {
      if (has_flags) column.role = ColumnRole::flag;
      if (!has_flags) table.unusable_label = not_one_column(open()->name(), *absent, names);
    }
    if (!label && !target) continue;
    if (answered) throw DataError(fmt::format("{}: two columns are named '{}'", open()->name(), column.name));
    column.role = label ? ColumnRole::label : ColumnRole::target;
    answered = true;
  }
}

/// A column's values against what the model knows of it.
class ColumnCheck {
 public:
  ColumnCheck(const CsvColumn& column, const Preprocessing& trained)
      : unknown_(trained.recipe.unknown),
        form_(trained.recipe.form),
        levels_(levels_of(column, trained)),
        index_(levels_) {
    const std::string feature = column.features().front();
    for (const FittedColumn& fitted : trained.columns) {
      if (fitted.name == feature) fitted_ = &fitted;
    }
  }

  void check(const LineReader& line, CsvColumn& column, const std::string& field) const {
    const bool missing = is_missing(field, form_);
    if (column.role == ColumnRole::number || column.role == ColumnRole::date) {
      if (missing ? fitted_->fill.has_value() : is_usable(line, column, field)) return;
      fail_at(
          line, column,
          missing ? "the value is missing, but the model was trained on a set without missing values; fill it in, or "
                    "import the training set with --missing mean or --missing median"
          : column.role == ColumnRole::date
              ? not_a_date(field, column.date.order, ", as the model's training set had them in this column")
              : fmt::format(
                    "'{}' is not a number in the range of float32, but the model was trained on numbers in this column",
                    field));
    }
    const std::string text = missing ? "" : field;
    if (const std::size_t at = find_invalid_utf8(text); at != std::string::npos)
      fail_at(line, column, not_utf8(text[at]));
    if (!index_.find(text) && unknown_ == Unknown::error) {
      fail_at(line, column,
              fmt::format("{}, which the model was not trained on (it knows {}); leave the row out, or import the "
                          "training set with --unknown other",
                          missing ? "the value is missing" : fmt::format("'{}'", text), listed(levels_)));
    }
    column.codes.emplace(text, 0);
  }

  /// Whether the model knows a class, which then has the model's number.
  bool note_class(CsvColumn& column, const std::string& field) const {
    const auto code = index_.find(field);
    if (code) column.codes.emplace(field, static_cast<std::int64_t>(*code));
    return code.has_value();
  }

 private:
  bool is_usable(const LineReader& line, const CsvColumn& column, const std::string& field) const {
    if (column.role == ColumnRole::date) return parse_date(field, column.date.order).has_value();
    return fits_float(as_number(line, column, field, form_));
  }

  static std::vector<std::string> levels_of(const CsvColumn& column, const Preprocessing& trained) {
    if (column.role == ColumnRole::label) return trained.class_names;
    for (const FittedColumn& fitted : trained.columns) {
      if (fitted.name == column.name) return fitted.levels;
    }
    return {};
  }

  Unknown unknown_;
  TableForm form_;
  const FittedColumn* fitted_ = nullptr;
  std::vector<std::string> levels_;
  LevelIndex index_;
};

std::string unknown_class(const std::string& name, const std::vector<std::string>& classes) {
  const std::string twin = twin_of(name, classes);
  return fmt::format("'{}' is not one of the classes that the model was trained on ({}){}", name, listed(classes),
                     twin.empty() ? "" : fmt::format("; is it '{}'?", twin));
}

/// Labels or targets that cannot be used are left out as a whole, and the table says why.
void note_answer(CsvTable& table, const LineReader& line, const CsvColumn& column, const std::string& field,
                 const std::vector<std::string>& classes) {
  if (!table.unusable_label.empty()) return;
  table.unusable_label = fmt::format("{}:{}: column '{}': {}", line.name(), line.number(), column.name,
                                     is_missing(field, table.dialect.form) ? "the value is missing"
                                     : column.role == ColumnRole::label    ? unknown_class(field, classes)
                                     : column.role == ColumnRole::flag
                                         ? fmt::format("'{}' is neither 0 nor 1", field)
                                         : fmt::format("'{}' is not a number in the range of float32", field));
}

void scan_trained_rows(const OpenText& open, CsvTable& table, const Preprocessing& trained) {
  std::vector<ColumnCheck> checks;
  for (const CsvColumn& column : table.columns) checks.emplace_back(column, trained);
  table.rows = read_rows(*open(), csv_rows(table.dialect), [&](const LineReader& line, const auto& fields) {
    for (std::size_t i = 0; i < fields.size(); ++i) {
      CsvColumn& column = table.columns[i];
      if (column.is_feature()) checks[i].check(line, column, fields[i]);
      if (column.role == ColumnRole::label && !checks[i].note_class(column, fields[i])) {
        note_answer(table, line, column, fields[i], trained.class_names);
      }
      if (column.role == ColumnRole::target && !fits_float(as_number(line, column, fields[i], table.dialect.form)))
        note_answer(table, line, column, fields[i], {});
      if (column.role == ColumnRole::flag && !parse_flag(as_number(line, column, fields[i], table.dialect.form)))
        note_answer(table, line, column, fields[i], {});
    }
  });
}

/// The table's own numbering of levels; that of classes is the model's.
void number_levels(CsvTable& table, const Preprocessing& trained) {
  for (CsvColumn& column : table.columns) {
    if (column.is_answer() && !table.unusable_label.empty()) column.role = ColumnRole::excluded;
    if (column.role == ColumnRole::label) column.texts = trained.class_names;
    if (column.role != ColumnRole::words) continue;
    for (auto& [text, code] : column.codes) {
      code = static_cast<std::int64_t>(column.texts.size());
      column.texts.push_back(text);
    }
  }
  list_features(table);
}

}  // namespace

CsvTable columns_for(const OpenText& open, const Preprocessing& trained) {
  CsvTable table;
  table.dialect = dialect_for(open, trained);
  if (!table.dialect.header) require_places(open, table, trained);
  table.dialect.empty_rows = true;  // predictions come row by row
  table.columns = name_columns(open, table.dialect);
  give_trained_roles(open, table, trained);
  return table;
}

CsvTable scan_table_for(const OpenText& open, const Preprocessing& trained) {
  CsvTable table = columns_for(open, trained);
  scan_trained_rows(open, table, trained);
  number_levels(table, trained);
  return table;
}

}  // namespace unisono::data
