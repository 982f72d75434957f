#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "import/csv_dialect.hpp"
#include "recipe/encoder.hpp"
#include "unisono/data/import.hpp"
#include "unisono/data/preprocessing.hpp"

namespace unisono::data {

/// flag: whether a row has one of several labels.
enum class ColumnRole { number, words, date, label, target, flag, group, time, weight, excluded };

/// What shows that a column says nothing about an example: it numbers the rows, or holds dates or names.
struct ColumnShape {
  bool watched = false;  ///< a feature that the options do not name, in the training table
  std::int64_t values = 0;
  bool counts = true, whole = true;  ///< numbers: from 0 or 1 on, one after the other; without decimals
  double first = 0;
  std::vector<double> ids;     ///< numbers of a column whose name is that of ids; the first million
  bool leading_zeros = false;  ///< numbers: of some, as in postal codes
  bool dates = true;           ///< words: all of them
  bool too_many = false;       ///< words: no more are kept, because all of them are dates, or differ
  bool dates_alone = false;    ///< of too many: they do not differ, so that all others must be dates, too
};

struct CsvColumn {
  std::string name;
  bool named_as_id = false;  ///< or without a name in a line of names
  ColumnRole role = ColumnRole::excluded;
  bool missing = false;        ///< of a feature: some value is
  bool decided = true;         ///< false: a feature whose first value decides whether it holds words
  bool first_is_word = false;  ///< which decided it
  bool are_classes = false;    ///< of labels: the options say that they are, however many there are
  DateColumn date;             ///< of dates: how they are written, and what is made of them
  std::optional<bool> dated;   ///< of times: whether they are dates, or numbers
  double low = 0, high = 0;    ///< of a column of numbers, targets or weights, once it has some
  double rounding = -1;        ///< the largest difference of such a number from a float32; −1: none yet
  std::map<std::string, std::int64_t> codes;  ///< words, labels and groups: text → its number
  ColumnShape shape;
  std::string left_out;            ///< why; empty: it is not, or the options say so
  std::vector<std::string> texts;  ///< by number; of equal numbers ("1", "1.0") the first

  bool has_codes() const { return role == ColumnRole::words || role == ColumnRole::label || role == ColumnRole::group; }
  bool is_answer() const { return role == ColumnRole::label || role == ColumnRole::target || role == ColumnRole::flag; }
  bool is_feature() const {
    return role == ColumnRole::number || role == ColumnRole::words || role == ColumnRole::date;
  }
  /// Names of the features that are made of it.
  std::vector<std::string> features() const {
    return role == ColumnRole::date ? date.features() : std::vector<std::string>{name};
  }
};

/// A table after its first reading: what each column is, and that every value can be used.
struct CsvTable {
  CsvDialect dialect;
  std::vector<CsvColumn> columns;
  Recipe recipe;               ///< how the columns become features
  std::int64_t rows = 0;       ///< of the table
  std::int64_t test_rows = 0;  ///< of the second table
  LeftOut left_out;            ///< of both
  std::string unusable_label;  ///< of a table for a trained model: the place and text of a label that it does not know

  const CsvColumn* column_of(ColumnRole role) const;  ///< null: there is none
  std::vector<std::string> feature_names() const;     ///< "age", "colour", "day.year", …
  std::vector<std::string> label_names() const;       ///< of the columns that are flags
};

/// A field as a column of numbers reads it: with a decimal point, and without separators between its digits.
/// \throws DataError for a number that is written in another form than the table's
std::string as_number(const LineReader& line, const CsvColumn& column, const std::string& field, const TableForm& form);

/// Whether a field is 0 or 1; nothing for other texts.
std::optional<bool> parse_flag(const std::string& field);
/// A field that says whether an example has the label of its column. \throws DataError where it is neither 0 nor 1
bool as_flag(const LineReader& line, const CsvColumn& column, const std::string& field);

/// Why a field is no date of this order: "'1.3.24' is not a date like 2024-03-01 or …".
/// \param more follows, but for a field with a time zone
std::string not_a_date(const std::string& field, DateOrder order, std::string_view more);

/// Index of the column of this name or number; nothing: there is none.
std::optional<std::size_t> place_of_column(const std::vector<CsvColumn>& columns, const std::string& which);
std::vector<std::string> names_of(const std::vector<CsvColumn>& columns);

/// Index of the column of this name or number. \param option its name, for messages
/// \throws ConfigError where there is none
std::size_t find_column(const std::vector<CsvColumn>& columns, const std::string& option, const std::string& which);

/// Numbers the texts: by value where all are numbers, otherwise by the alphabet. A missing one is first.
void number_texts(CsvColumn& column);

/// \throws DataError "FILE:LINE: column 'NAME': WHAT"
[[noreturn]] void fail_at(const LineReader& line, const CsvColumn& column, const std::string& what);

/// Writes what the table's features are, and how many fields a row has, into its recipe.
void list_features(CsvTable& table);

/// Names from the header, or numbers where there is none.
std::vector<CsvColumn> name_columns(const OpenText& open, const CsvDialect& dialect);

/// Roles from the options; what they do not name is a feature, of numbers or words as its first value shows.
/// \throws ConfigError for a column that is not there, or has two roles
void give_roles(std::vector<CsvColumn>& columns, const CsvOptions& options);

/// \throws DataError where a column has too many of them for categories or classes
void note_text(const LineReader& line, CsvColumn& column, const std::string& field);
void note_number(CsvColumn& column, double value);

/// \throws ConfigError where labels are so many different numbers that they may be classes as well as numbers to
/// predict
void require_task(const OpenText& open, const CsvTable& table);

/// Leaves out features that say nothing about an example, unless they are all features. \pre the table was read once
void leave_out_columns(CsvTable& table);

/// What each column is, and why.
std::vector<ImportedColumn> describe_columns(const CsvTable& table);

/// Whether a name is one that columns of ids have: "id", "index", "customer_id", "PassengerId".
bool is_name_of_ids(const std::string& name);

/// Reads a table, and a second one with the same columns where `open_test` is not empty.
/// \throws DataError naming line and column of a value that is missing, or is no number where others are
/// \throws ConfigError for a column that is not there, or an option that is none
CsvTable scan_table(const OpenText& open, const OpenText& open_test, const CsvOptions& options);

/// Reads a table for a trained model: the columns that it was trained on, by name and in any order.
/// \throws DataError naming the column that is missing, or line, column and value of what the model does not know
CsvTable scan_table_for(const OpenText& open, const Preprocessing& trained);
/// The columns of such a table; its rows are not read.
CsvTable columns_for(const OpenText& open, const Preprocessing& trained);

/// The values of a row. \param label −1 where there are no labels
struct CsvRow {
  std::vector<float> features;      ///< a number, NaN where it is missing, or a level's number
  std::vector<std::uint8_t> flags;  ///< 0 or 1 for each of several labels
  std::int64_t label = -1, group = 0;
  float target = 0, weight = 1;
  double time = 0;
};
void encode_row(const CsvTable& table, const LineReader& line, const std::vector<std::string>& fields, CsvRow& row);

}  // namespace unisono::data
