#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "command.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/printable.hpp"

namespace unisono::cli {
namespace {

/// `import idx` and `import cifar10`, which take a folder.
template <typename Import>
void add_folder_import(Command import, Chosen& chosen, const char* name, const char* meaning, Import make) {
  Command command = import.add_subcommand(name, meaning);
  const auto folder = std::make_shared<std::string>();
  command.add_option("folder", *folder, "folder with the files").required().type_name("FOLDER");
  const auto output = add_output(command);
  command.callback([=, &chosen] { chosen.alone = [=] { say(make(*folder, *output)); }; });
}

/// "32x32", or "32" for both. \throws ConfigError
void read_size(const std::string& text, data::ImageForm& form) {
  const std::size_t cross = text.find('x');
  const auto number = [&](const std::string& part) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error == std::errc() && end == part.data() + part.size() && value > 0) return value;
    throw ConfigError(fmt::format("--size {}: a width and a height in pixels are expected, such as 64x64", text));
  };
  form.width = number(text.substr(0, cross));
  form.height = cross == std::string::npos ? form.width : number(text.substr(cross + 1));
}

/// Where a table says which files there are, and what they show.
void add_picture_list(Command command, data::ImagesOptions& options) {
  const Option list =
      command
          .add_option("--list", options.list, "a CSV file with a line for each picture, in place of folders of classes")
          .type_name("FILE");
  command
      .add_option("--file-column", options.file_column, "its column of the files, as they are named below the folder")
      .needs(list);
  const Option label =
      command.add_option("--label-column", options.label_column, "its column of the classes").needs(list);
  const Option separator = command
                               .add_option("--label-separator", options.label_separator,
                                           "a picture may have several labels: what stands between those of its cell, "
                                           "such as ';'; an empty cell is no label")
                               .not_empty()
                               .needs(list);
  command
      .add_option("--label-columns", options.label_columns,
                  "a picture may have several labels: columns of 0 and 1, one for each label")
      .separated_by(',')
      .needs(list)
      .excludes(label)
      .excludes(separator);
  command.add_option("--split-column", options.split_column, "its column of the splits: train, validation or test")
      .needs(list);
}

void add_images(Command import, Chosen& chosen) {
  Command command = import.add_subcommand(
      "images", "import JPEG and PNG files: a folder for each class, maybe below the folders train, val and test");
  const auto folder = std::make_shared<std::string>();
  const auto size = std::make_shared<std::string>();
  const auto options = std::make_shared<data::ImagesOptions>();
  command.add_option("folder", *folder, "folder with a folder for each class, or with the files of a list")
      .required()
      .type_name("FOLDER");
  const auto output = add_output(command);
  command.add_option("--size", *size, "what all images are scaled to: width and height, such as 64x64")
      .required()
      .type_name("WxH");
  add_picture_list(command, *options);
  command.add_choice("--fit", options->form.fit, data::kFits, "what is kept of a picture of another shape");
  command.add_choice("--colours", options->form.colours, data::kColours, "what a pixel is");
  command.add_option("--centre", options->form.centre,
                     "with --fit crop: which share of the sides of the part that is kept is shown, around the middle");
  command.add_flag("--encoded", options->encoded,
                   "keep the bytes of the files, which become images whenever they are used");
  command.add_flag("--verify", options->verifies, "with --encoded: decode each file once, which finds all damage")
      .needs(command.option("--encoded"));
  command.add_flag("--skip-damaged", options->skips_damaged, "leave out damaged files, and list them");
  add_shares(command, *options, "pictures");
  command.callback([=, &chosen] {
    chosen.alone = [=] {
      read_size(*size, options->form);
      say(data::import_images(*folder, *options, *output));
    };
  });
}

/// How a run turns the columns into features.
void add_recipe(Command command, data::CsvOptions& options) {
  command.add_choice("--scale", options.scale, data::kScalings,
                     "how a run scales numeric columns, computed from its own training rows");
  command
      .add_flag(
          "--standardize", [&options] { options.scale = data::Scaling::standard; }, "the same as --scale standard")
      .excludes(command.option("--scale"));
  command.add_choice("--missing", options.missing, data::kMissing, "how a run replaces missing numbers");
  command.add_flag("--drop-missing-labels", options.drop_missing_labels, "leave out rows without a label or target");
  command.add_choice("--unknown", options.unknown, data::kUnknown,
                     "how a run treats categories that do not occur in its training rows");
  command
      .add_option("--minimum-frequency", options.minimum_frequency,
                  "least number of training rows of a category; rarer ones become 'other'")
      .positive()
      .capture_default_str();
  command.add_option("--group", options.group, "column that says which rows belong together, for cross-validation");
  command.add_option("--time", options.time, "column with times: numbers, or dates like 2024-02-29");
  command.add_option("--weight", options.weight, "column with the training weight of each row");
}

/// How the table is written.
void add_form(Command command, data::TableForm& form) {
  command
      .add_option("--delimiter,--separator", form.delimiter,
                  "delimiter of the columns: auto (tab for files named .tsv), tab, or one character")
      .capture_default_str();
  add_number_form(command, form);
  add_encoding(command, form.encoding);
  command
      .add_option("--missing-values", form.missing_values,
                  "texts that stand for a missing value, beside the empty one; upper and lower case are alike")
      .separated_by(',')
      .default_str("?,NA,N/A,NaN,null");
}

void add_csv(Command import, Chosen& chosen) {
  Command command = import.add_subcommand(
      "csv", "import a table of numbers and categories: CSV or TSV files, which may be compressed with gzip or zstd");
  const auto paths = std::make_shared<std::vector<std::string>>();
  const auto options = std::make_shared<data::CsvOptions>();
  command.add_option("files", *paths, "table; further files with the same columns add rows to it")
      .required()
      .type_name("FILE");
  const auto output = add_output(command);
  command.add_option("--label", options->label, "column with the class: its name, or its number (1: first, -1: last)");
  command.add_choice("--task", options->task, data::kTasks, "what the column of --label holds");
  command.add_option("--target", options->target, "column with the number to predict (regression), instead of --label");
  command
      .add_option("--label-columns", options->label_columns,
                  "columns of 0 and 1, one for each label of which a row may have several, instead of --label")
      .separated_by(',');
  command.add_option("--exclude", options->exclude, "columns that are not used as features").separated_by(',');
  command
      .add_option("--include", options->include,
                  "columns that are features although they look like numbers of the rows, dates or names")
      .separated_by(',');
  command.add_option("--categorical", options->categorical, "columns whose numbers are categories, not quantities")
      .separated_by(',');
  command
      .add_option(
          "--dates", options->dates,
          "column of dates, or dates and times: year, month, weekday, days since 1970 and hour become features; "
          "may be repeated")
      .repeated();
  command.add_choice("--date-format", options->date_order, data::kDateOrders, "how these dates are written");
  add_form(command, options->form);
  command.add_choice("--header", options->header, data::kHeaders,
                     "whether the first line contains the names of the columns");
  add_recipe(command, *options);
  command.add_choice("--split", options->split, data::kTableSplits,
                     "how rows are chosen for the validation and test groups; auto: whole groups with --group");
  add_fractions(command, *options, "rows");
  command.callback([=, &chosen] { chosen.alone = [=] { say(data::import_csv(*paths, *options, *output)); }; });
}

}  // namespace

void add_number_form(Command command, data::TableForm& form) {
  command.add_option("--decimal", form.decimal, "character before the decimals of numbers: . or ,")
      .capture_default_str();
  command.add_option("--thousands", form.thousands,
                     "character between groups of three digits, such as , . ' or space (default: none)");
}

void add_encoding(Command command, data::Encoding& encoding) {
  command.add_choice("--encoding", encoding, data::kEncodings, "encoding of the text");
}

void say_warnings(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) fmt::print("warning: {}\n", on_one_line(warning));
}

std::shared_ptr<data::ImportOutput> add_output(Command command) {
  const auto output = std::make_shared<data::ImportOutput>();
  command.add_option("--output", output->path, "HDF5 file to write").required().type_name("FILE.h5");
  command.add_flag("--overwrite", output->overwrite, "replace the file if it exists");
  command.add_option("--compression", output->compression, "gzip level, 0 (none) to 9").between(0, 9);
  return output;
}

namespace {

std::size_t characters_of(const std::string& name) {
  return static_cast<std::size_t>(
      std::count_if(name.begin(), name.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

/// A line for each column; of wide tables, for those that are no plain numbers.
void say_columns(const data::ImportSummary& made) {
  constexpr std::size_t kMostLines = 50;
  if (made.columns.empty()) return;
  std::vector<data::ImportedColumn> shown = made.columns;
  for (data::ImportedColumn& column : shown) {
    column.name = on_one_line(column.name);
    column.what = on_one_line(column.what);
  }
  if (shown.size() > kMostLines) std::erase_if(shown, [](const data::ImportedColumn& column) { return column.plain; });
  const std::size_t numbers = made.columns.size() - shown.size();
  const std::size_t more = shown.size() > kMostLines ? shown.size() - kMostLines : 0;
  shown.resize(shown.size() - more);
  std::size_t width = 0;
  for (const data::ImportedColumn& column : shown) width = std::max(width, characters_of(column.name));
  fmt::print("columns separated by {}, {}\n", delimiter_text(made.delimiter),
             made.header ? "with their names in the first line" : "without a line of names");
  for (const data::ImportedColumn& column : shown) {
    fmt::print("  {}{}  {:<8}  {}\n", column.name, std::string(width - characters_of(column.name), ' '), column.role,
               column.what);
  }
  if (numbers > 0) fmt::print("  and {} of numbers\n", count_of(static_cast<std::int64_t>(numbers), "column"));
  if (more > 0) fmt::print("  and {}\n", count_of(static_cast<std::int64_t>(more), "other column"));
}

}  // namespace

void say(const data::ImportSummary& made) {
  const std::string shape =
      made.shape.size() == 1 ? count_of(made.shape.front(), "column") : fmt::format("{}", fmt::join(made.shape, "×"));
  fmt::print("{}: {} training, {} validation and {} test examples of {}, {}\n", on_one_line(made.path), made.train,
             made.validation, made.test, shape,
             made.several_labels > 0 ? fmt::format("with several of {}", count_of(made.several_labels, "label"))
             : made.classes > 0      ? count_of(made.classes, "class")
             : made.targets          ? "with a target"
                                     : "no labels or targets");
  say_columns(made);
  if (made.split != data::TableSplit::random)
    fmt::print("rows divided by --split {}\n", unisono::name_of(made.split, data::kTableSplits));
  if (made.empty_rows > 0) fmt::print("left out: {} without any value\n", count_of(made.empty_rows, "row"));
  if (made.unlabelled_rows > 0)
    fmt::print("left out: {} without a label or target\n", count_of(made.unlabelled_rows, "row"));
  say_warnings(made.warnings);
}

void add_import(Command data, Chosen& chosen) {
  Command import = data.add_subcommand("import", "make a data set from files in another format");
  import.require_subcommand();
  add_folder_import(import, chosen, "idx",
                    "import a folder with the four IDX files of MNIST or Fashion-MNIST, which may be gzipped",
                    data::import_idx);
  add_folder_import(import, chosen, "cifar10", "import a folder with the binary files of CIFAR-10",
                    data::import_cifar10);
  add_images(import, chosen);
  add_csv(import, chosen);
  add_array_imports(import, chosen);
  add_sparse_imports(import, chosen);
}

}  // namespace unisono::cli
