#include "predict/raw_lines.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string_view>

#include "unisono/base/errors.hpp"
#include "unisono/base/raw_file.hpp"
#include "unisono/data/import.hpp"

namespace unisono::apply {
namespace {

constexpr std::string_view kBlanks = " \t\r";

std::string trimmed(const std::string& line) {
  const std::size_t first = line.find_first_not_of(kBlanks);
  return first == std::string::npos ? "" : line.substr(first, line.find_last_not_of(kBlanks) + 1 - first);
}

/// The fields of a line of values, which commas or blanks separate.
std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  while (true) {
    line.remove_prefix(std::min(line.find_first_not_of(", \t\r"), line.size()));
    if (line.empty()) return fields;
    const std::size_t end = std::min(line.find_first_of(", \t\r"), line.size());
    fields.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

/// A number as NumPy would store it as a float: what is too small becomes 0.
float value_of(std::string_view field) {
  std::string_view digits = field;
  if (digits.starts_with('+')) digits.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool is_tiny = error == std::errc::result_out_of_range && field.find_first_of("eE") != std::string_view::npos &&
                       field[field.find_first_of("eE") + 1] == '-';
  const bool fits = error == std::errc{} && std::abs(value) <= std::numeric_limits<float>::max();
  if (end == digits.data() + digits.size() && (fits || is_tiny)) return static_cast<float>(value);
  throw DataError(fmt::format("{}: '{}' is not a number in the range of float32", kStandardInput, field));
}

}  // namespace

RawLines::Form RawLines::form_of(const session::StoredCheckpoint& checkpoint) {
  const data::SetKind kind = checkpoint.header.inputs.kind;
  const data::Preprocessing& trained = checkpoint.header.preprocessing;
  if (kind == data::SetKind::sparse) return Form::libsvm;
  if (kind == data::SetKind::table && trained.recipe.images) return Form::pictures;
  if (kind == data::SetKind::table && trained.columns.empty() && trained.known) return Form::values;
  if (kind == data::SetKind::table || !trained.recipe.text.empty()) return Form::table;
  throw ConfigError(
      fmt::format("--stream: {} was trained on {}, and examples can be streamed to models of tables, rows of LIBSVM, "
                  "pictures, stored values and texts with classes; write the examples to a file, and name it with "
                  "--input",
                  checkpoint.path, data::name_of(kind)));
}

RawLines::RawLines(const session::StoredCheckpoint& checkpoint)
    : checkpoint_(checkpoint),
      form_(form_of(checkpoint)),
      has_names_(form_ == Form::table && checkpoint.header.preprocessing.recipe.header) {}

void RawLines::set_names(const std::string& line) {
  if (const std::size_t at = line.find('\r'); at < line.size() - 1) {
    throw DataError(
        fmt::format("{}: the line of names holds a carriage return; end lines with a line feed", kStandardInput));
  }
  names_ = line + "\n";
  if (!text_column().empty()) return;
  data::check_names_of_table(names_, std::string(kStandardInput), form());
}

data::RawForm RawLines::form() const {
  const models::ModelInputs& inputs = checkpoint_.header.inputs;
  return {.kind = inputs.kind, .features = inputs.features, .preprocessing = checkpoint_.header.preprocessing};
}

bool RawLines::is_example(const std::string& line) const {
  const std::size_t first = line.find_first_not_of(kBlanks);
  return first != std::string::npos && !(form_ == Form::libsvm && line[first] == '#');
}

std::string RawLines::file_of(const std::vector<std::string>& examples) const {
  return names_ + fmt::format("{}\n", fmt::join(examples, "\n"));
}

std::vector<float> RawLines::features(const std::vector<std::string>& examples) const {
  if (form_ == Form::table) return data::features_of_table(file_of(examples), std::string(kStandardInput), form());
  std::vector<float> values;
  for (const std::string& example : examples) add_values(example, values);
  return data::features_of_values(values, form());
}

void RawLines::write(const std::vector<std::string>& examples, const std::string& path) const {
  if (form_ == Form::pictures) return link_pictures(examples, path);
  std::ofstream file(path, std::ios::binary);
  file << file_of(examples);
  file.close();
  if (!file) {
    throw OutputError(fmt::format("{}: cannot be written: {}; {}", path, std::strerror(errno), advice_on(errno)));
  }
}

/// A folder of links to the pictures, whose names keep their order. What a picture is, its content says.
void RawLines::link_pictures(const std::vector<std::string>& paths, const std::string& folder) const {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::create_directory(folder, error);
  for (std::size_t i = 0; !error && i < paths.size(); ++i) {
    const std::string path = trimmed(paths[i]);
    if (path.find('\0') != std::string::npos) {
      throw DataError(fmt::format("{}: the path holds a zero byte", kStandardInput));
    }
    std::error_code unknown;
    const fs::file_status status = fs::status(path, unknown);
    if (!fs::exists(status)) {
      throw DataError(fmt::format(
          "{}: {}: {}; each line names a JPEG or PNG file", kStandardInput, path,
          unknown && unknown != std::errc::no_such_file_or_directory ? unknown.message() : "there is no such file"));
    }
    if (!fs::is_regular_file(status)) {
      throw DataError(fmt::format("{}: {}: is no file; each line names a JPEG or PNG file", kStandardInput, path));
    }
    fs::create_symlink(fs::absolute(path), fmt::format("{}/{:09}.jpg", folder, i), error);
  }
  if (error) throw OutputError(fmt::format("{}: cannot be made: {}", folder, error.message()));
}

/// The values of an example as they are stored.
void RawLines::add_values(const std::string& example, std::vector<float>& values) const {
  const Index size = checkpoint_.header.inputs.features.size();
  const std::vector<std::string_view> fields = fields_of(example);
  if (std::ssize(fields) != size) {
    throw DataError(
        fmt::format("{}: the line has {} values, but the model takes {}", kStandardInput, fields.size(), size));
  }
  for (const std::string_view field : fields) {
    const float value = value_of(field);
    if (checkpoint_.header.preprocessing.bytes && (value < 0 || value > 255 || value != std::floor(value))) {
      throw DataError(fmt::format("{}: '{}' is not a whole number from 0 to 255, as the model's training set held",
                                  kStandardInput, field));
    }
    values.push_back(value);
  }
}

}  // namespace unisono::apply
