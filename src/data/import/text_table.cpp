#include "import/text_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

bool is_number(const std::string& name) {
  int number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc{} && end == name.data() + name.size();
}

}  // namespace

TextTable::TextTable(const std::string& path, const TextColumns& wanted)
    : open_(text_of(path, wanted.form.encoding)), item_(wanted.item), allows_no_label_(wanted.allows_no_label) {
  dialect_ = detect_dialect(open_, wanted.form, is_number(wanted.text) ? Header::no : Header::yes);
  columns_ = name_columns(open_, dialect_);
  if (wanted.trained && !place_of_column(columns_, wanted.text)) {
    fail_without_column(path, wanted.text, names_of(columns_));
  }
  text_ = column_of(wanted.text_option, wanted.text);
  columns_[text_].role = ColumnRole::words;
  const bool is_to_be_predicted = wanted.trained && !place_of_column(columns_, wanted.label);
  if (wanted.label.empty() || is_to_be_predicted) return;
  label_ = column_of("label-column", wanted.label);
  if (*label_ == text_) {
    throw ConfigError(fmt::format("--{} and --label-column both name column '{}'; name two different ones",
                                  wanted.text_option, columns_[text_].name));
  }
  columns_[*label_].role = ColumnRole::label;
}

std::size_t TextTable::column_of(const std::string& option, const std::string& name) const {
  if (const auto count = std::ranges::count(columns_, name, &CsvColumn::name); count > 1) {
    throw DataError(fmt::format("{}: {} columns are named '{}'; rename all but one", open_()->name(), count, name));
  }
  return find_column(columns_, option, name);
}

void TextTable::read(
    const std::function<void(const LineReader& line, const std::string& text, const std::string& label)>& visit) {
  read_fields([&](const LineReader& line, const std::vector<std::string>& fields) {
    visit(line, fields[text_], label_ ? fields[*label_] : "");
  });
}

void TextTable::read_fields(
    const std::function<void(const LineReader& line, const std::vector<std::string>& fields)>& visit) {
  read_rows(*open_(), csv_rows(dialect_, fmt::format("rows with {}s", item_)),
            [&](const LineReader& line, const auto& fields) {
              const std::string& text = fields[text_];
              if (text.empty())
                fail_at(line, columns_[text_], fmt::format("the {} is empty; fill it in, or leave out the row", item_));
              if (const std::size_t at = find_invalid_utf8(text); at != std::string::npos) {
                fail_at(line, columns_[text_], not_utf8(text[at]));
              }
              const bool may_lack_it = !label_ || (allows_no_label_ && fields[*label_].empty());
              if (!may_lack_it && is_missing(fields[*label_], dialect_.form)) {
                fail_at(line, columns_[*label_],
                        fmt::format("the class is missing ('{}'); fill it in, or leave out the row", fields[*label_]));
              }
              visit(line, fields);
            });
}

std::vector<std::vector<std::string>> TextTable::columns(const std::string& option,
                                                         const std::vector<std::string>& names) const {
  std::vector<std::size_t> places;
  for (const std::string& name : names) places.push_back(column_of(option, name));
  std::vector<std::vector<std::string>> rows;
  read_rows(*open_(), csv_rows(dialect_), [&](const LineReader&, const auto& fields) {
    std::vector<std::string>& row = rows.emplace_back();
    for (const std::size_t place : places) row.push_back(fields[place]);
  });
  return rows;
}

Recipe TextTable::recipe() const {
  Recipe recipe;
  recipe.text = text().name;
  if (label_) recipe.label = label().name;
  recipe.header = dialect_.header;
  recipe.form = dialect_.form;
  recipe.form.delimiter = dialect_.delimiter == '\t' ? "tab" : std::string(1, dialect_.delimiter);
  return recipe;
}

TextTable table_for(const std::string& path, const Recipe& recipe) {
  const auto place_of = [&](const std::string& name) {  // "column2" of a file without a line of names
    return recipe.header ? name : name.substr(std::string_view("column").size());
  };
  return {path, {.text = place_of(recipe.text), .label = place_of(recipe.label), .form = recipe.form, .trained = true}};
}

}  // namespace unisono::data
