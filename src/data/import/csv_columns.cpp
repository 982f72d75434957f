#include "import/csv_columns.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "import/rows.hpp"
#include "unisono/base/config.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/data/label_names.hpp"

namespace unisono::data {

std::optional<std::size_t> place_of_column(const std::vector<CsvColumn>& columns, const std::string& which) {
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].name == which) return i;
  }
  int number = 0;
  const auto [end, error] = std::from_chars(which.data(), which.data() + which.size(), number);
  const auto count = static_cast<int>(columns.size());
  if (error == std::errc{} && end == which.data() + which.size()) {
    if (number >= 1 && number <= count) return static_cast<std::size_t>(number - 1);
    if (number < 0 && number >= -count) return static_cast<std::size_t>(count + number);
  }
  return std::nullopt;
}

std::vector<std::string> names_of(const std::vector<CsvColumn>& columns) {
  std::vector<std::string> names;
  for (const CsvColumn& column : columns) names.push_back(column.name);
  return names;
}

std::size_t find_column(const std::vector<CsvColumn>& columns, const std::string& option, const std::string& which) {
  if (const auto place = place_of_column(columns, which)) return *place;
  throw ConfigError(fmt::format("--{} '{}': there is no such column; choose from {}", option, which,
                                fmt::join(names_of(columns), ", ")));
}

void number_texts(CsvColumn& column) {
  const bool numbers = std::all_of(column.codes.begin(), column.codes.end(), [](const auto& entry) {
    return entry.first.empty() || exact_number(entry.first).has_value();
  });
  std::int64_t next = 0;
  if (!numbers) {
    for (auto& [text, code] : column.codes) {
      code = next++;
      column.texts.push_back(text);
    }
    return;
  }
  constexpr double kBeforeAll = -std::numeric_limits<double>::infinity();
  const auto value_of = [](const std::string& text) { return text.empty() ? kBeforeAll : *parse_number(text); };
  std::map<double, std::int64_t> by_value;
  for (const auto& [text, code] : column.codes) by_value.emplace(value_of(text), 0);
  for (auto& [value, code] : by_value) code = next++;
  column.texts.resize(by_value.size());
  for (auto& [text, code] : column.codes) {
    code = by_value.at(value_of(text));
    if (column.texts[static_cast<std::size_t>(code)].empty()) column.texts[static_cast<std::size_t>(code)] = text;
  }
}

namespace {

/// \throws DataError for a text that people read as a number, but that is none in the table's form
void check_written_number(const LineReader& line, const CsvColumn& column, const std::string& field,
                          const TableForm& form) {
  const std::string advice = advice_on_number(field, form);
  if (advice.empty()) return;
  fail_at(line, column, fmt::format("'{}' {}, or name the column with --categorical or --exclude", field, advice));
}

/// Numbers such as 1700000001 and 1700000002 are one number in float32.
void require_precision(const OpenText& open, const CsvColumn& column) {
  const std::string lost = lost_in_float_text(column.low, column.high, column.rounding);
  if (lost.empty()) return;
  throw DataError(
      fmt::format("{}: column '{}': {}, or leave the column out with --exclude", open()->name(), column.name, lost));
}

/// Dates become seconds since 1970; what numbers count, only the user knows.
void note_time(const LineReader& line, CsvColumn& column, const std::string& field) {
  const bool dated = !parse_number(field);
  if (column.dated.value_or(dated) != dated) {
    fail_at(line, column,
            fmt::format("'{}' is a {}, but the times before are {}; write all of them in the same way", field,
                        dated ? "date" : "number", dated ? "numbers" : "dates"));
  }
  column.dated = dated;
}

void check_date(const LineReader& line, CsvColumn& column, const std::string& field) {
  const auto date = parse_date(field, column.date.order);
  if (!date) fail_at(line, column, not_a_date(field, column.date.order, "; correct it, or set --date-format"));
  column.date.hours = column.date.hours || date->has_time;
  note_number(column, date->days);
}

/// \param field of a column of numbers: as_number
void check_value(const LineReader& line, CsvColumn& column, const std::string& field) {
  switch (column.role) {
    case ColumnRole::target:
      if (fits_float(field)) return note_number(column, *parse_number(field));
      fail_at(line, column,
              fmt::format("'{}' is not a number in the range of float32, as targets must be; correct it, or name a "
                          "column of classes with --label instead of --target",
                          field));
    case ColumnRole::number:
      if (fits_float(field)) return note_number(column, *parse_number(field));
      fail_at(
          line, column,
          fmt::format("'{}' is not a number in the range of float32, but the column holds numbers; correct it, name "
                      "the column with --categorical or --exclude, or, if it stands for a missing value, list it "
                      "with --missing-values",
                      field));
    case ColumnRole::weight:
      if (fits_float(field) && *parse_number(field) >= 0) return note_number(column, *parse_number(field));
      fail_at(line, column, fmt::format("'{}' is not a weight; weights are numbers of at least 0", field));
    case ColumnRole::date:
      return check_date(line, column, field);
    case ColumnRole::flag:
      return note_number(column, as_flag(line, column, field) ? 1 : 0);
    case ColumnRole::time:
      if (parse_time(field)) return note_time(line, column, field);
      fail_at(
          line, column,
          fmt::format("'{}' is not a time; times are numbers, or dates like 2024-02-29 or 2024-02-29T18:30:00", field));
    default:
      if (column.first_is_word && parse_number(field)) {
        fail_at(
            line, column,
            fmt::format("'{}' is a number, but the column holds words such as '{}'; correct it, name the column with "
                        "--categorical or --exclude, or, if the word stands for a missing value, list it with "
                        "--missing-values",
                        field, column.codes.begin()->first));
      }
      note_text(line, column, field);
  }
}

/// The first value of a feature that is not missing decides what the column holds.
void decide(const LineReader& line, CsvColumn& column, const std::string& field, const TableForm& form) {
  column.decided = true;
  if (parse_number(as_number(line, column, field, form)) || is_unusable_number(field)) return;
  check_written_number(line, column, field, form);
  column.role = ColumnRole::words;
  column.first_is_word = true;
}

[[noreturn]] void fail_missing(const LineReader& line, const CsvColumn& column, const std::string& field) {
  std::string advice = column.is_feature() ? ", or replace missing values with --missing mean or --missing median"
                       : column.role == ColumnRole::flag ? ""
                       : column.is_answer() ? ", or leave out all rows without a label with --drop-missing-labels"
                                            : "";
  if (column.has_codes() && !field.empty()) advice += "; if this is a name, say with --missing-values what is missing";
  fail_at(line, column,
          fmt::format("the value is missing ('{}'); fill it in, or leave out the row or the column{}", field, advice));
}

void scan_row(CsvTable& table, const LineReader& line, const std::vector<std::string>& fields) {
  const TableForm& form = table.dialect.form;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    CsvColumn& column = table.columns[i];
    if (column.role == ColumnRole::excluded) continue;
    if (!is_missing(fields[i], form)) {
      if (!column.decided) decide(line, column, fields[i], form);
      const bool number = column.role == ColumnRole::number || column.role == ColumnRole::target;
      const bool text = column.has_codes() || column.role == ColumnRole::date;
      const std::string value = text ? fields[i] : as_number(line, column, fields[i], form);
      if (number && !parse_number(value)) check_written_number(line, column, fields[i], form);
      check_value(line, column, value);
      if (number && value.size() > 1 && value[0] == '0' && value.find_first_not_of("0123456789") == std::string::npos)
        column.shape.leading_zeros = true;
    } else if (column.is_feature() && table.recipe.missing != Missing::error) {
      column.missing = true;
    } else {
      fail_missing(line, column, fields[i]);
    }
  }
}

std::int64_t scan_rows(const OpenText& open, CsvTable& table) {
  const auto lines = open();
  const std::int64_t rows =
      read_rows(*lines, csv_rows(table.dialect, "rows below the header line", &table.left_out),
                [&](const LineReader& line, const auto& fields) { scan_row(table, line, fields); });
  if (table.dialect.delimiter == '\t') table.left_out.empty += lines->lines_of_blanks();
  return rows;
}

Recipe recipe_of(const CsvOptions& options) {
  Recipe recipe;
  recipe.missing = options.missing;
  recipe.unknown = options.unknown;
  recipe.scaling = options.scale;
  recipe.minimum_frequency = options.minimum_frequency;
  recipe.form = options.form;
  if (recipe.minimum_frequency > 1 && recipe.unknown == Unknown::error) {
    throw ConfigError("--minimum-frequency: rare categories become 'other': add --unknown other");
  }
  return recipe;
}

void complete_recipe(CsvTable& table) {
  list_features(table);
  if (const CsvColumn* label = table.column_of(ColumnRole::label)) table.recipe.label = label->name;
  if (const CsvColumn* target = table.column_of(ColumnRole::target)) table.recipe.target = target->name;
}

/// Columns are known by name, so that no two features may have the same.
void require_distinct_names(const OpenText& open, const CsvTable& table) {
  std::map<std::string, int> seen;
  for (const CsvColumn& column : table.columns) {
    if (column.role == ColumnRole::excluded) continue;
    std::vector<std::string> names = column.features();
    if (column.role == ColumnRole::date) names.push_back(column.name);
    for (const std::string& name : names) {
      if (seen[name]++ == 0) continue;
      throw DataError(
          fmt::format("{}: two columns are named '{}'; rename one, or leave one out", open()->name(), name));
    }
  }
}

}  // namespace

std::vector<CsvColumn> name_columns(const OpenText& open, const CsvDialect& dialect) {
  std::vector<CsvColumn> columns(dialect.columns);
  for (std::size_t i = 0; i < columns.size(); ++i) columns[i].name = fmt::format("column{}", i + 1);
  if (!dialect.header) return columns;
  const auto lines = open();
  lines->join_quoted(dialect.delimiter);
  std::string line;
  std::vector<std::string> names;
  lines->next(line);
  if (const std::size_t at = find_invalid_utf8(line); at != std::string::npos) lines->fail(at + 1, not_utf8(line[at]));
  split_line(*lines, line, dialect.delimiter, names);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    columns[i].named_as_id = names[i].empty() || is_name_of_ids(names[i]);
    if (!names[i].empty()) columns[i].name = names[i];
  }
  return columns;
}

namespace {

/// \throws ConfigError for options that contradict each other
void check_options(const CsvOptions& options) {
  const auto conflict = [](bool wrong, const char* text) {
    if (wrong) throw ConfigError(text);
  };
  conflict(!options.label.empty() && !options.target.empty(),
           "--label and --target cannot be combined; use --label for classes, or --target for numbers");
  conflict(!options.label_columns.empty() && !(options.label.empty() && options.target.empty()),
           "--label-columns cannot be combined with --label or --target: a row has several labels, a class, or a "
           "number to predict");
  conflict(options.label.empty() && options.target.empty() && options.task != Task::automatic,
           "--task says what the column of --label holds; name that column");
  conflict(options.dates.empty() && options.date_order != DateOrder::ymd,
           "--date-format says how columns of dates are written; name them with --dates");
  conflict(!options.target.empty() && options.task == Task::classes,
           "--task classes and --target cannot be combined; name the column of classes with --label");
}

}  // namespace

void give_roles(std::vector<CsvColumn>& columns, const CsvOptions& options) {
  check_options(options);
  for (CsvColumn& column : columns) {
    column.role = ColumnRole::number;
    column.decided = false;
    column.shape.watched = true;
  }
  std::vector<std::string> given(columns.size());  // the option that named each column
  const auto give = [&](const std::string& option, const std::string& which, ColumnRole role) {
    if (which.empty()) return;
    const std::size_t i = find_column(columns, option, which);
    const bool texts = role == ColumnRole::label || role == ColumnRole::group;  // which categories are, too
    columns[i].are_classes = options.task == Task::classes || given[i] == "categorical";
    if (role == ColumnRole::flag && given[i] == option)
      throw ConfigError(fmt::format("--{} names column '{}' twice; name it once", option, columns[i].name));
    if (!given[i].empty() && given[i] != option && !(texts && given[i] == "categorical")) {
      throw ConfigError(
          fmt::format("--{} and --{} both name column '{}'; remove one of them", given[i], option, columns[i].name));
    }
    given[i] = option;
    columns[i].role = role;
    columns[i].decided = true;
    columns[i].shape.watched = false;
  };
  for (const auto& which : options.categorical) give("categorical", which, ColumnRole::words);
  for (const auto& which : options.exclude) give("exclude", which, ColumnRole::excluded);
  for (const auto& which : options.dates) {
    give("dates", which, ColumnRole::date);
    CsvColumn& column = columns[find_column(columns, "dates", which)];
    column.date = {.name = column.name, .order = options.date_order};
  }
  give("group", options.group, ColumnRole::group);
  give("time", options.time, ColumnRole::time);
  give("weight", options.weight, ColumnRole::weight);
  give("label", options.label, options.task == Task::regression ? ColumnRole::target : ColumnRole::label);
  give("target", options.target, ColumnRole::target);
  for (const auto& which : options.label_columns) give("label-columns", which, ColumnRole::flag);
  for (const auto& which : options.include) {
    const std::size_t i = find_column(columns, "include", which);
    if (!columns[i].is_feature())
      throw ConfigError(
          fmt::format("--{} and --include both name column '{}'; remove one of them", given[i], columns[i].name));
    columns[i].shape.watched = false;
  }
}

std::string not_a_date(const std::string& field, DateOrder order, std::string_view more) {
  const std::size_t time = field.find(':'), sign = field.find_last_of("+-");
  if (time != std::string::npos && sign != std::string::npos && sign > time)
    return fmt::format("'{}' has a time zone; write all times in one zone, without naming it", field);
  const char* const like = order == DateOrder::ymd   ? "2024-03-01 or 2024-03-01T12:30:00"
                           : order == DateOrder::dmy ? "31/12/2024 or 31/12/2024 12:30"
                                                     : "12/31/2024 or 12/31/2024 12:30";
  return fmt::format("'{}' is not a date like {}{}", field, like, more);
}

std::optional<bool> parse_flag(const std::string& field) {
  const std::optional<double> number = parse_number(field);
  if (!number || (*number != 0 && *number != 1)) return std::nullopt;
  return *number == 1;
}

bool as_flag(const LineReader& line, const CsvColumn& column, const std::string& field) {
  if (const std::optional<bool> flag = parse_flag(field)) return *flag;
  fail_at(line, column,
          fmt::format("'{}' is neither 0 nor 1; a column of --label-columns says with 1 who has the label", field));
}

std::string as_number(const LineReader& line, const CsvColumn& column, const std::string& field,
                      const TableForm& form) {
  if (auto plain = plain_number(field, form)) return *plain;
  if (!parse_number(field)) return field;
  fail_at(line, column,
          fmt::format("'{}' is a number with a decimal point, but --decimal is '{}'; write all numbers in the same way",
                      field, form.decimal));
}

void fail_at(const LineReader& line, const CsvColumn& column, const std::string& what) {
  line.fail(fmt::format("column '{}': {}", column.name, what));
}

void list_features(CsvTable& table) {
  table.recipe.header = table.dialect.header;
  table.recipe.fields = static_cast<std::int64_t>(table.dialect.columns);
  for (const CsvColumn& column : table.columns) {
    if (column.role == ColumnRole::date) table.recipe.dates.push_back(column.date);
    if (column.is_feature() && column.role != ColumnRole::words) {
      for (const std::string& name : column.features()) table.recipe.columns.push_back({.name = name});
    }
    if (column.role != ColumnRole::words) continue;
    table.recipe.columns.push_back({.name = column.name, .kind = ColumnKind::category, .levels = column.texts});
  }
}

const CsvColumn* CsvTable::column_of(ColumnRole role) const {
  const auto found =
      std::find_if(columns.begin(), columns.end(), [role](const CsvColumn& c) { return c.role == role; });
  return found == columns.end() ? nullptr : &*found;
}

std::vector<std::string> CsvTable::feature_names() const {
  std::vector<std::string> names;
  for (const CsvColumn& column : columns) {
    if (!column.is_feature()) continue;
    for (const std::string& name : column.features()) names.push_back(name);
  }
  return names;
}

std::vector<std::string> CsvTable::label_names() const {
  std::vector<std::string> names;
  for (const CsvColumn& column : columns) {
    if (column.role == ColumnRole::flag) names.push_back(column.name);
  }
  return names;
}

namespace {

/// Rows without a label or target are left out.
void require_labels(CsvTable& table) {
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const ColumnRole role = table.columns[i].role;
    if (role == ColumnRole::label || role == ColumnRole::target) table.dialect.needed = i;
  }
  if (!table.dialect.needed) throw ConfigError("--drop-missing-labels needs --label or --target");
}

}  // namespace

CsvTable scan_table(const OpenText& open, const OpenText& open_test, const CsvOptions& options) {
  CsvTable table;
  table.recipe = recipe_of(options);
  table.dialect = detect_dialect(open, options.form, options.header);
  table.columns = name_columns(open, table.dialect);
  give_roles(table.columns, options);
  table.dialect.file = open()->name();
  table.dialect.names = names_of(table.columns);
  if (options.drop_missing_labels) require_labels(table);
  table.rows = scan_rows(open, table);
  leave_out_columns(table);
  if (open_test) table.test_rows = scan_rows(open_test, table);
  for (CsvColumn& column : table.columns) {
    if (column.role == ColumnRole::words && column.missing) column.codes.emplace("", 0);
    if (column.has_codes()) number_texts(column);
    if (column.role == ColumnRole::number || column.role == ColumnRole::target) require_precision(open, column);
  }
  require_task(open, table);
  if (const CsvColumn* weight = table.column_of(ColumnRole::weight); weight != nullptr && weight->high == 0) {
    throw DataError(
        fmt::format("{}: column '{}': all weights are 0, so nothing would be learned", open()->name(), weight->name));
  }
  if (table.feature_names().empty())
    throw DataError(open()->name() + ": has no feature columns; --label, --target and --exclude leave none");
  require_distinct_names(open, table);
  if (const std::string problem = problem_of_labels(table.label_names()); !problem.empty()) {
    throw DataError(fmt::format("{}: {}; rename the column", open()->name(), problem));
  }
  complete_recipe(table);
  return table;
}

namespace {

void encode_date(const LineReader& line, const CsvColumn& column, const std::string& field, CsvRow& row) {
  const auto date = parse_date(field, column.date.order);
  if (!date) fail_at(line, column, "changed while it was being read");
  for (const double part : {double(date->year), double(date->month), double(date->weekday), date->days})
    row.features.push_back(static_cast<float>(part));
  if (column.date.hours) row.features.push_back(static_cast<float>(date->hour));
}

}  // namespace

void encode_row(const CsvTable& table, const LineReader& line, const std::vector<std::string>& fields, CsvRow& row) {
  row.features.clear();
  row.flags.clear();
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const CsvColumn& column = table.columns[i];
    if (column.role == ColumnRole::excluded) continue;
    const bool missing = is_missing(fields[i], table.dialect.form);
    if (missing && column.is_feature() && column.role != ColumnRole::words) {
      row.features.insert(row.features.end(), column.features().size(), std::numeric_limits<float>::quiet_NaN());
      continue;
    }
    if (column.role == ColumnRole::date) {
      encode_date(line, column, fields[i], row);
      continue;
    }
    const auto code = column.codes.find(missing ? "" : fields[i]);
    const std::string text = column.has_codes() ? "" : as_number(line, column, fields[i], table.dialect.form);
    const auto number = column.role == ColumnRole::time ? parse_time(text) : parse_number(text);
    if (column.has_codes() ? code == column.codes.end() : !number)
      fail_at(line, column, "changed while it was being read");
    switch (column.role) {
      case ColumnRole::number:
        row.features.push_back(static_cast<float>(*number));
        break;
      case ColumnRole::words:
        row.features.push_back(static_cast<float>(code->second));
        break;
      case ColumnRole::label:
        row.label = code->second;
        break;
      case ColumnRole::target:
        row.target = static_cast<float>(*number);
        break;
      case ColumnRole::flag:
        row.flags.push_back(as_flag(line, column, text) ? 1 : 0);
        break;
      case ColumnRole::group:
        row.group = code->second;
        break;
      case ColumnRole::time:
        row.time = *number;
        break;
      case ColumnRole::weight:
        row.weight = static_cast<float>(*number);
        break;
      case ColumnRole::date:
      case ColumnRole::excluded:
        break;
    }
  }
}

}  // namespace unisono::data
