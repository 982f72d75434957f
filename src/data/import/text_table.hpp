#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "import/csv_columns.hpp"

namespace unisono::data {

/// The columns of a CSV file that hold texts and their classes. Each is named by its name in the first line; or, if the
/// file has no line of names, by its number: 1 is the first, −1 the last.
struct TextColumns {
  std::string text, label;  ///< label: empty: there is none
  TableForm form = {};
  bool allows_no_label = false;  ///< whether the cell of the classes may be empty
  bool trained = false;  ///< a model was trained on columns of these names; the one of the classes may be missing
  // For messages: what the texts are, and the option that names their column.
  std::string item = "text", text_option = "text-column";
};

/// A CSV file whose rows are texts, with their classes.
class TextTable {
 public:
  /// \throws ConfigError for a column that is not there; DataError for a file that is no table, or lacks the column of
  /// the texts that a model was trained on
  TextTable(const std::string& path, const TextColumns& wanted);

  /// Calls visit(line, text, class) for each row; the class is empty where there is no column of classes.
  /// \throws DataError naming line and column of a text or class that is missing, or of bytes that are no UTF-8
  void read(
      const std::function<void(const LineReader& line, const std::string& text, const std::string& label)>& visit);

  /// Likewise visit(line, fields) with all of a row's fields, for columns that `column_of` knows.
  void read_fields(const std::function<void(const LineReader& line, const std::vector<std::string>& fields)>& visit);

  /// The place of a column among the fields. \param option that names it, for messages \throws ConfigError for a column
  /// that is not there, DataError where several have the name
  std::size_t column_of(const std::string& option, const std::string& name) const;
  const CsvColumn& column(std::size_t place) const { return columns_[place]; }

  /// The values of some columns, row by row, whatever is in them: [rows][names].
  /// \throws ConfigError for a column that is not there
  std::vector<std::vector<std::string>> columns(const std::string& option, const std::vector<std::string>& names) const;

  bool has_labels() const { return label_.has_value(); }
  const CsvColumn& text() const { return columns_[text_]; }
  const CsvColumn& label() const { return columns_[*label_]; }
  /// Which columns they were, for files to which a model is applied.
  Recipe recipe() const;

 private:
  OpenText open_;
  std::string item_;
  bool allows_no_label_;
  CsvDialect dialect_;
  std::vector<CsvColumn> columns_;
  std::size_t text_ = 0;
  std::optional<std::size_t> label_;
};

/// The table of texts to which a trained classifier is applied. It need not have the column of the classes.
TextTable table_for(const std::string& path, const Recipe& recipe);

/// The classes of several tables, numbered as import_csv numbers them: by value where all are numbers, otherwise by the
/// alphabet.
class TextClasses {
 public:
  explicit TextClasses(const std::string& name) {
    column_.name = name;
    column_.role = ColumnRole::label;
    column_.are_classes = true;
  }
  /// \throws DataError where there are too many of them
  void note(const LineReader& line, const std::string& label) { note_text(line, column_, label); }
  /// Called after the last note.
  void number() { number_texts(column_); }
  std::int64_t number_of(const std::string& label) const { return column_.codes.at(label); }
  const std::vector<std::string>& names() const { return column_.texts; }

 private:
  CsvColumn column_;
};

}  // namespace unisono::data
