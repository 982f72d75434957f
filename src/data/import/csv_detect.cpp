#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "import/csv_dialect.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

using CsvFields = std::vector<std::string>;

constexpr std::string_view kPreferred = ",;\t|";

/// The first rows as a delimiter cuts them.
struct Cut {
  char delimiter = ',';
  std::vector<CsvFields> rows =
      {};                  ///< a row that it cannot cut is empty; what is wrong with it is said when it is read
  std::size_t fields = 0;  ///< of the first row, if most have as many; else 0
  std::size_t below = 0;   ///< of all rows below the first, if they have equally many; else 0
  bool all = false;        ///< all rows have equally many

  bool fits() const { return fields >= 2; }
  bool fits_all() const { return fits() && all; }
};

Cut cut_with(const OpenText& open, char delimiter) {
  const auto lines = open();
  lines->join_quoted(delimiter);
  Cut cut;
  cut.delimiter = delimiter;
  for (const std::string& line : first_lines(*lines, "a table has at least one row")) {
    CsvFields fields;
    try {
      split_line(*lines, line, delimiter, fields);
    } catch (const DataError&) {
      fields.clear();
    }
    cut.rows.push_back(std::move(fields));
  }
  const auto alike = [&](const CsvFields& like) {
    return static_cast<std::size_t>(
        std::count_if(cut.rows.begin(), cut.rows.end(), [&](const auto& row) { return row.size() == like.size(); }));
  };
  const std::size_t same = alike(cut.rows[0]);
  if (2 * same > cut.rows.size()) cut.fields = cut.rows[0].size();
  cut.all = same == cut.rows.size();
  if (cut.rows.size() > 1 && alike(cut.rows[1]) + 1 == cut.rows.size() && cut.rows[0].size() != cut.rows[1].size())
    cut.below = cut.rows[1].size();
  return cut;
}

std::string delimiter_name(char delimiter) {
  return delimiter == '\t' ? "tab" : delimiter == ' ' ? "blanks" : fmt::format("'{}'", delimiter);
}

/// Whether a number has commas, before its decimals or between groups of three digits.
bool has_number_commas(std::string_view field) {
  return plain_number(field, {.decimal = ",", .thousands = "."}) ||
         plain_number(field, {.decimal = ".", .thousands = ","});
}

/// Whether the commas that a cut leaves in its fields are those of numbers; those of the first row may be in names.
bool explains_commas(const Cut& cut) {
  bool any = false;
  for (std::size_t i = 0; i < cut.rows.size(); ++i) {
    for (const std::string& field : cut.rows[i]) {
      if (field.find(',') == std::string::npos) continue;
      if (!has_number_commas(field) && (i > 0 || cut.rows.size() == 1)) return false;
      any = true;
    }
  }
  return any;
}

/// Whether a column holds several numbers with blanks between them, in all rows.
bool leaves_numbers_with_blanks(const Cut& cut, const LineReader& reader) {
  CsvFields parts;
  const auto several = [&](const std::string& field) {
    split_line(reader, field, ' ', parts);
    return parts.size() > 1 && std::all_of(parts.begin(), parts.end(), [](const auto& p) { return parse_number(p); });
  };
  for (std::size_t c = 0; c < cut.fields; ++c) {
    if (std::all_of(cut.rows.begin(), cut.rows.end(),
                    [&](const CsvFields& row) { return row[c].find('"') == std::string::npos && several(row[c]); }))
      return true;
  }
  return false;
}

[[noreturn]] void fail_doubt(const std::string& name, const std::vector<const Cut*>& cuts) {
  constexpr std::size_t kShown = 60;  // bytes of a row
  std::vector<std::string> ways;
  for (const Cut* cut : cuts) {
    const CsvFields& row = cut->rows.back();
    std::string shown = fmt::format("{}", fmt::join(row, " | "));
    if (shown.size() > kShown) shown = shown.substr(0, kShown) + "…";
    ways.push_back(fmt::format("{} {} ({})", delimiter_name(cut->delimiter),
                               count_of(static_cast<std::int64_t>(cut->fields), "column"), shown));
  }
  throw DataError(
      fmt::format("{}: cannot tell what separates the columns: {}; set --delimiter", name, fmt::join(ways, ", or ")));
}

/// The delimiter of the cuts that fit all rows. A semicolon that explains the commas as those of numbers is one.
const Cut& choose_cut(const std::string& name, const std::vector<const Cut*>& fitting) {
  if (fitting.size() == 1) return *fitting[0];
  std::vector<const Cut*> explaining;
  const bool comma = std::any_of(fitting.begin(), fitting.end(), [](const Cut* c) { return c->delimiter == ','; });
  for (const Cut* cut : fitting) {
    if (comma && fitting.size() == 2 && cut->delimiter != ',' && explains_commas(*cut)) explaining.push_back(cut);
  }
  if (explaining.size() == 1) return *explaining[0];
  fail_doubt(name, fitting);
}

/// The first line may be a title: all lines below it are cut alike, and otherwise than it.
void require_no_title(const std::string& name, const std::vector<Cut>& cuts) {
  for (const Cut& cut : cuts) {
    const bool without_first_name = cut.rows[0].size() > 1 && cut.rows[0].size() + 1 == cut.below;  // as R writes
    if (cut.below < 2 || cut.rows.size() < 3 || (cut.delimiter == ' ' && !without_first_name)) continue;
    throw DataError(fmt::format(
        "{}: with {} the first line has {}, but all lines below it have {}; the first line must hold the names of all "
        "columns, or values: remove what stands above them, or set --delimiter",
        name, delimiter_name(cut.delimiter), count_of(std::ssize(cut.rows[0]), "field"), cut.below));
  }
}

char detect_delimiter(const OpenText& open) {
  const auto reader = open();
  std::vector<Cut> cuts;
  for (const char delimiter : kPreferred) cuts.push_back(cut_with(open, delimiter));
  const Cut blanks = cut_with(open, ' ');
  std::vector<const Cut*> all;
  const Cut* most = nullptr;
  for (const Cut& cut : cuts) {
    if (cut.fits_all()) all.push_back(&cut);
    if (cut.fits() && (most == nullptr || cut.fields > most->fields)) most = &cut;
  }
  if (!all.empty()) {
    const Cut& chosen = choose_cut(reader->name(), all);
    if (most != &chosen && most->fields > chosen.fields && !explains_commas(chosen))
      fail_doubt(reader->name(), {&chosen, most});
    const bool perhaps_blanks = chosen.delimiter == '\t' || (chosen.delimiter == ',' && explains_commas(blanks));
    if (perhaps_blanks && blanks.fits_all() && leaves_numbers_with_blanks(chosen, *reader))
      fail_doubt(reader->name(), {&chosen, &blanks});
    return chosen.delimiter;
  }
  if (blanks.fits_all() && (most == nullptr || (most->delimiter == ',' && explains_commas(blanks)))) return ' ';
  if (blanks.fits_all()) fail_doubt(reader->name(), {most, &blanks});
  if (most != nullptr) return most->delimiter;
  if (blanks.fits()) return ' ';
  cuts.push_back(blanks);
  require_no_title(reader->name(), cuts);
  return ',';  // there is but one column
}

/// Texts that are no names: those for missing values in other programs.
bool is_placeholder(const std::string& text) {
  const TableForm others{
      .missing_values = {"-", ".", "--", "none", "unknown", "missing", "n.a.", "#N/A", "nil", "NaT"}};
  return is_missing(text, others);
}

/// What the first row holds in columns that hold numbers below it.
struct FirstRow {
  std::size_t words = 0;       ///< and no texts for missing values
  std::vector<double> values;  ///< numbers
  std::vector<std::size_t> columns;
  bool any_numbers = false;  ///< in any column
};

/// Whether a column holds numbers below the first row, and else what stands for missing values.
bool holds_numbers(const std::vector<CsvFields>& rows, std::size_t column, const TableForm& form) {
  bool any = false, others = false;
  for (std::size_t r = 1; r < rows.size(); ++r) {
    if (column >= rows[r].size() || is_missing(rows[r][column], form)) continue;
    const std::string& field = rows[r][column];
    const bool number = plain_number(field, form) || !advice_on_number(field, form).empty();
    if (!number && !is_placeholder(field)) return false;
    any = any || number;
    others = others || !number;
  }
  return rows.size() > 1 && (any || !others);
}

FirstRow compare_first_row(const std::vector<CsvFields>& rows, const TableForm& form) {
  FirstRow first;
  for (std::size_t c = 0; c < rows[0].size(); ++c) {
    const std::string& name = rows[0][c];
    const auto value = plain_number(name, form);
    const bool number = value || !advice_on_number(name, form).empty();
    first.any_numbers = first.any_numbers || number;
    if (!holds_numbers(rows, c, form)) continue;
    if (value) {
      first.values.push_back(*parse_number(*value));
      first.columns.push_back(c);
    } else if (!number && !is_missing(name, form) && !is_placeholder(name)) {
      ++first.words;
    }
  }
  return first;
}

/// Whether the numbers of the first row ascend as years, wavelengths and numbers of columns do, and are other ones than
/// those below it: all of another range, or whole ones one after the other above others.
bool counts_columns(const std::vector<CsvFields>& rows, const FirstRow& first, const TableForm& form) {
  const auto& values = first.values;
  if (values.size() < 3 || std::adjacent_find(values.begin(), values.end(), std::greater_equal<>()) != values.end())
    return false;
  bool one_by_one = std::trunc(values[0]) == values[0];
  for (std::size_t i = 0; i < values.size(); ++i)
    one_by_one = one_by_one && values[i] == values[0] + static_cast<double>(i);
  bool whole = true, outside = true;
  for (std::size_t i = 0; i < values.size(); ++i) {
    double low = std::numeric_limits<double>::infinity(), high = -low;
    for (std::size_t r = 1; r < rows.size(); ++r) {
      const auto number =
          first.columns[i] < rows[r].size() ? plain_number(rows[r][first.columns[i]], form) : std::nullopt;
      if (!number) continue;
      const double value = *parse_number(*number);
      whole = whole && std::trunc(value) == value;
      low = std::min(low, value);
      high = std::max(high, value);
    }
    outside = outside && (values[i] < low || values[i] > high);
  }
  return outside || (one_by_one && !whole);
}

/// Whether the first row holds words where all rows below hold numbers. Numbers in it may be names beside words only
/// where they ascend or descend, as years and wavelengths do.
bool detect_header(const std::string& name, const std::vector<CsvFields>& rows, const TableForm& form) {
  const FirstRow first = compare_first_row(rows, form);
  const auto& values = first.values;
  const bool monotonic = std::adjacent_find(values.begin(), values.end(), std::less_equal<>()) == values.end() ||
                         std::adjacent_find(values.begin(), values.end(), std::greater_equal<>()) == values.end();
  if (first.words > 0 && (values.size() <= first.words || monotonic)) return true;
  if (first.words == 0 && first.any_numbers && !counts_columns(rows, first, form)) return false;
  throw DataError(fmt::format(
      "{}: cannot tell whether the first line holds names or values; set --header yes or --header no", name));
}

/// Single quotes are characters: where a delimiter stands between them, it divides the field.
void check_single_quotes(const std::string& name, const std::vector<CsvFields>& rows) {
  const auto all_rows = [&](std::size_t column, bool begins) {
    return std::all_of(rows.begin() + (rows.size() > 1 ? 1 : 0), rows.end(), [&](const CsvFields& row) {
      return column < row.size() && row[column].size() > 1 && (row[column].front() == '\'') == begins &&
             (row[column].back() == '\'') != begins;
    });
  };
  for (std::size_t c = 0; c + 1 < rows[0].size(); ++c) {
    if (!all_rows(c, true) || !all_rows(c + 1, false)) continue;
    throw DataError(
        fmt::format("{}: the single quotes of {} … {} do not keep a delimiter in the field; write double quotes, or "
                    "set --delimiter",
                    name, rows.back()[c], rows.back()[c + 1]));
  }
}

/// Whether a file's name says that tabs separate its columns: "a.tsv", "a.tsv.gz".
bool is_named_tsv(std::string_view name) {
  for (const std::string_view packed : {".gz", ".zst"}) {
    if (name.ends_with(packed)) name.remove_suffix(packed.size());
  }
  return name.ends_with(".tsv") || name.ends_with(".TSV");
}

}  // namespace

char parse_delimiter(const std::string& delimiter) {
  if (delimiter == "tab" || delimiter == "\\t") return '\t';
  if (delimiter.size() == 1 && delimiter[0] != '"' && delimiter[0] != '\n' && delimiter[0] != '\r') return delimiter[0];
  throw ConfigError(fmt::format("--delimiter '{}': it must be one character, 'tab' or 'auto'", delimiter));
}

CsvDialect detect_dialect(const OpenText& open, const TableForm& form, Header header) {
  check_form(form);
  CsvDialect dialect{.form = form};
  const auto reader = open();
  dialect.delimiter = form.delimiter != "auto"       ? parse_delimiter(form.delimiter)
                      : is_named_tsv(reader->name()) ? '\t'
                                                     : detect_delimiter(open);
  const Cut cut = cut_with(open, dialect.delimiter);
  if (cut.rows[0].empty()) {
    std::string line;
    CsvFields fields;
    reader->join_quoted(dialect.delimiter);
    reader->next(line);
    split_line(*reader, line, dialect.delimiter, fields);
  }
  if (form.delimiter == "auto") check_single_quotes(reader->name(), cut.rows);
  dialect.columns = cut.rows[0].size();
  dialect.header = header == Header::automatic ? detect_header(reader->name(), cut.rows, form) : header == Header::yes;
  return dialect;
}

}  // namespace unisono::data
