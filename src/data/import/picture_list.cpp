// Lists of pictures: a CSV file with a line for each, which names the file and its class, or its labels.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "import/picture_folder.hpp"
#include "import/text_table.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/data/label_names.hpp"

namespace unisono::data {
namespace {

namespace fs = std::filesystem;

TextColumns columns_of(const ImagesOptions& options) {
  return {.text = options.file_column,
          .label = options.label_columns.empty() ? options.label_column : "",
          .allows_no_label = !options.label_separator.empty(),
          .item = "file",
          .text_option = "file-column"};
}

/// What a row says of a picture: its class, or its labels, by their names.
class RowLabels {
 public:
  RowLabels(const TextTable& table, const ImagesOptions& options) : table_(table), separator_(options.label_separator) {
    for (const std::string& name : options.label_columns) {
      const std::size_t place = table.column_of("label-columns", name);
      if (std::ranges::count(columns_, place) > 0) {
        throw ConfigError(fmt::format("--label-columns names column '{}' twice; name it once", name));
      }
      columns_.push_back(place);
      names_.push_back(table.column(place).name);
    }
    if (columns_.empty()) label_ = table.column_of("label-column", options.label_column);
  }

  std::vector<std::string> of(const LineReader& line, const std::vector<std::string>& fields) const {
    if (!columns_.empty()) return of_columns(line, fields);
    return separator_.empty() ? std::vector<std::string>{fields[label_]} : of_cell(line, fields[label_]);
  }
  bool are_several() const { return !separator_.empty() || !columns_.empty(); }
  /// Those of the columns; empty: there is a cell of labels.
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<std::string> of_columns(const LineReader& line, const std::vector<std::string>& fields) const {
    std::vector<std::string> labels;
    for (std::size_t k = 0; k < columns_.size(); ++k) {
      if (as_flag(line, table_.column(columns_[k]), fields[columns_[k]])) labels.push_back(names_[k]);
    }
    return labels;
  }

  std::vector<std::string> of_cell(const LineReader& line, std::string_view cell) const {
    const auto fail = [&](const std::string& what) { fail_at(line, table_.column(label_), what); };
    std::vector<std::string> labels;
    while (!cell.empty()) {
      const std::size_t end = cell.find(separator_);
      const std::string label(without_blanks(cell.substr(0, end)));
      if (label.empty()) fail(fmt::format("there is no label before or behind a '{}'; remove it", separator_));
      if (std::ranges::count(labels, label) > 0) fail(fmt::format("has the label '{}' twice; remove one", label));
      if (const std::string problem = problem_of_labels({label}); !problem.empty()) {
        fail(problem + "; rename it, or correct --label-separator");
      }
      labels.push_back(label);
      if (end == std::string_view::npos) break;
      cell.remove_prefix(end + separator_.size());
      if (cell.empty()) fail(fmt::format("there is no label behind the last '{}'; remove it", separator_));
    }
    return labels;
  }

  const TextTable& table_;
  std::string separator_;
  std::size_t label_ = 0;
  std::vector<std::size_t> columns_;
  std::vector<std::string> names_;
};

Split split_of_row(const LineReader& line, const std::string& name) {
  if (const std::optional<Split> split = split_of(name)) return *split;
  line.fail(fmt::format("'{}' is no split; there are train, val (or valid, validation) and test", name));
}

/// Numbers the classes, and gives the pictures those of theirs. \param labels of each picture
void number_labels(const std::vector<std::vector<std::string>>& labels, const TextClasses& classes,
                   const RowLabels& rows, PictureFolder& found) {
  found.several_labels = rows.are_several();
  found.classes = rows.names().empty() ? classes.names() : rows.names();
  std::map<std::string, std::int64_t> numbers;
  for (std::size_t k = 0; k < rows.names().size(); ++k) numbers[rows.names()[k]] = static_cast<std::int64_t>(k);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    std::vector<std::int64_t>& own = found.files[i].labels;
    for (const std::string& label : labels[i]) {
      own.push_back(numbers.empty() ? classes.number_of(label) : numbers.at(label));
    }
    if (!found.several_labels) found.files[i].label = own.front();
  }
}

}  // namespace

PictureFolder list_table(const std::string& folder, const ImagesOptions& options) {
  const fs::path root(folder);
  std::error_code ignored;
  if (!fs::is_directory(root, ignored)) throw DataError(folder + ": is not a folder");
  if (!options.label_separator.empty() && !options.label_columns.empty()) {
    throw ConfigError("--label-separator and --label-columns cannot be combined; labels are in a cell, or in columns");
  }
  TextTable table(options.list, columns_of(options));
  const RowLabels rows(table, options);
  PictureFolder found{.is_divided = !options.split_column.empty()};
  const std::size_t name_place = table.column_of("file-column", options.file_column);
  const std::size_t split_place = found.is_divided ? table.column_of("split-column", options.split_column) : 0;
  TextClasses classes(options.label_column);
  std::vector<std::vector<std::string>> labels;
  std::set<std::string> names;
  table.read_fields([&](const LineReader& line, const std::vector<std::string>& fields) {
    const std::string& name = fields[name_place];
    const fs::path path = root / name;
    if (!options.skips_damaged && !fs::is_regular_file(path, ignored)) {
      fail_at(line, table.text(),
              path.string() + " is no file; correct the table, or leave such files out with --skip-damaged");
    }
    if (!names.insert(fs::path(name).lexically_normal().string()).second)
      fail_at(line, table.text(), name + " is listed twice; remove one of the lines");
    PictureFile file{.path = path.string(), .name = name};
    if (found.is_divided) file.split = split_of_row(line, fields[split_place]);
    found.files.push_back(std::move(file));
    labels.push_back(rows.of(line, fields));
    if (!rows.names().empty()) return;
    for (const std::string& label : labels.back()) classes.note(line, label);
  });
  classes.number();
  number_labels(labels, classes, rows, found);
  if (found.classes.empty()) {
    throw DataError(fmt::format("{}: column '{}' is empty in all rows, so that no picture has a label", options.list,
                                options.label_column));
  }
  if (!found.several_labels) return found;
  if (const std::string problem = problem_of_labels(found.classes); !problem.empty()) {
    throw DataError(fmt::format("{}: {}; rename the column", options.list, problem));
  }
  return found;
}

}  // namespace unisono::data
