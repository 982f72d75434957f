#include "unisono/apply/prediction_sink.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string_view>

#include "unisono/base/errors.hpp"
#include "unisono/base/raw_file.hpp"
#include "unisono/data/hdf5.hpp"
#include "unisono/data/label_names.hpp"
#include "unisono/records/csv_field.hpp"

namespace unisono::apply {
namespace {

[[noreturn]] void fail(const std::string& path, const std::string& reason) {
  throw OutputError(
      fmt::format("{}: the predictions cannot be written: {}; choose another file with --output", path, reason));
}

bool has_labels(const SinkOptions& options) { return options.answer == "label"; }

std::vector<std::int32_t> classes_of(const SinkOptions& options, View rows) {
  const auto outputs = static_cast<std::size_t>(options.outputs);
  std::vector<std::int32_t> classes;
  for (std::size_t first = 0; first < rows.size(); first += outputs) {
    classes.push_back(options.classes->class_of(rows.subspan(first, outputs)));
  }
  return classes;
}

class Hdf5Sink final : public PredictionSink {
 public:
  explicit Hdf5Sink(const SinkOptions& options) : options_(options), file_(open(aside())) {
    const auto examples = static_cast<std::uint64_t>(options.examples);
    file_->create<float>("predictions", {examples, static_cast<std::uint64_t>(options.outputs)});
    const bool probabilities = !options.labels.empty() || (options.classes && options.classes->probabilities);
    const std::string_view kind = probabilities ? "probabilities" : options.classes ? "margins" : "values";
    file_->write_attribute("predictions", "outputs", std::string(kind));
    if (!options.layer.empty()) file_->write_attribute("predictions", "layer", options.layer);
    if (options.classes) file_->create<std::int32_t>("classes", {examples});
    if (has_labels(options)) {
      file_->create<std::int32_t>("labels", {examples});
    } else if (options.answer_width > 0) {
      file_->create<float>(answers(), {examples, static_cast<std::uint64_t>(options.answer_width)});
    }
    if (!options.class_names.empty()) file_->write_strings("class_names", options.class_names);
    if (!options.labels.empty()) file_->write_strings("label_names", options.labels);
  }

  ~Hdf5Sink() override {
    file_.reset();
    std::error_code ignored;
    std::filesystem::remove(aside(), ignored);
  }

  void write(int, std::int64_t first_example, View rows, View answers_of) override {
    const auto first = static_cast<std::uint64_t>(first_example);
    const std::size_t count = rows.size() / static_cast<std::size_t>(options_.outputs);
    try {
      file_->write_rows<float>("predictions", first, count, rows.data());
      if (options_.classes) {
        file_->write_rows<std::int32_t>("classes", first, count, classes_of(options_, rows).data());
      }
      if (has_labels(options_)) {
        const std::vector<std::int32_t> labels(answers_of.begin(), answers_of.end());
        file_->write_rows<std::int32_t>("labels", first, count, labels.data());
      } else if (options_.answer_width > 0) {
        file_->write_rows<float>(answers(), first, count, answers_of.data());
      }
    } catch (const Error& error) {
      fail(options_.path, error.what());
    }
  }

  void finish() override {
    try {
      file_->flush();
      file_.reset();
    } catch (const Error& error) {
      fail(options_.path, error.what());
    }
    sync_and_rename(aside(), options_.path);
  }

 private:
  static std::unique_ptr<data::hdf5::File> open(const std::string& path) {
    try {
      return std::make_unique<data::hdf5::File>(path, data::hdf5::File::Mode::create);
    } catch (const Error& error) {
      std::error_code ignored;
      std::filesystem::remove(path, ignored);
      throw OutputError(error.what());
    }
  }
  std::string aside() const { return options_.path + ".tmp"; }
  std::string answers() const { return options_.answer + "s"; }

  SinkOptions options_;
  std::unique_ptr<data::hdf5::File> file_;
};

void add_labels(const SinkOptions& options, View values, fmt::memory_buffer& text) {
  fmt::format_to(std::back_inserter(text), ",{}", records::csv_text(data::join_labels(values, options.labels)));
}

/// A value; of a class with its name where classes have names.
void add_value(const SinkOptions& options, float value, bool is_class, fmt::memory_buffer& text) {
  fmt::format_to(std::back_inserter(text), ",{}", value);
  if (!is_class || options.class_names.empty()) return;
  const auto label = static_cast<std::size_t>(value);
  const bool known = label < options.class_names.size();
  fmt::format_to(std::back_inserter(text), ",{}", known ? records::csv_text(options.class_names[label]) : "");
}

/// Writes one file per rank, and concatenates them at the end.
class CsvSink final : public PredictionSink {
 public:
  explicit CsvSink(const SinkOptions& options) : options_(options), rows_(options) {
    for (int rank = 0; rank < options.ranks; ++rank) {
      parts_.emplace_back(part(rank), std::ios::binary);
      if (!parts_.back()) fail(options.path, std::strerror(errno));
    }
    parts_.front() << rows_.header();
  }
  ~CsvSink() override {
    for (int rank = 0; rank < options_.ranks; ++rank) {
      std::error_code ignored;
      std::filesystem::remove(part(rank), ignored);
    }
  }

  void write(int rank, std::int64_t first, View rows, View answers) override {
    const std::string text = rows_.text(first, rows, answers);
    std::ofstream& file = parts_[static_cast<std::size_t>(rank)];
    if (!file.write(text.data(), static_cast<std::streamsize>(text.size()))) fail(options_.path, std::strerror(errno));
  }

  void finish() override {
    for (int rank = 1; rank < options_.ranks; ++rank) {
      parts_[static_cast<std::size_t>(rank)].close();
      if (std::filesystem::file_size(part(rank)) > 0) parts_.front() << std::ifstream(part(rank)).rdbuf();
    }
    parts_.front().close();
    for (const std::ofstream& file : parts_) {
      if (!file) fail(options_.path, std::strerror(errno));
    }
    sync_and_rename(part(0), options_.path);
  }

 private:
  std::string part(int rank) const { return fmt::format("{}.{}.tmp", options_.path, rank); }

  SinkOptions options_;
  PredictionRows rows_;
  std::vector<std::ofstream> parts_;
};

/// The column names of a CSV file's first line, read from left to right.
class Columns {
 public:
  explicit Columns(const std::string& line) : names_(1) {
    bool is_quoted = false;
    for (const char c : line) {
      if (c == '"') is_quoted = !is_quoted;
      if (c == ',' && !is_quoted) {
        names_.emplace_back();
      } else if (c != '"') {
        names_.back() += c;
      }
    }
  }
  /// Whether the next column has this name, which is then read.
  bool take(std::string_view name) {
    const bool is_next = next_ < names_.size() && names_[next_] == name;
    if (is_next) ++next_;
    return is_next;
  }
  void skip() { ++next_; }
  /// Likewise for columns name0, name1, … \return whether there is at least one
  bool take_numbered(const std::string& name) {
    int count = 0;
    while (take(name + std::to_string(count))) ++count;
    return count > 0;
  }
  /// Likewise for columns whose names begin so.
  bool take_all(std::string_view beginning) {
    const std::size_t before = next_;
    while (next_ < names_.size() && names_[next_].starts_with(beginning)) ++next_;
    return next_ > before;
  }
  bool at_end() const { return next_ == names_.size(); }

 private:
  std::vector<std::string> names_;
  std::size_t next_ = 0;
};

/// Whether the columns that are left are answers, classes and outputs, as CsvSink writes them, and nothing else.
bool name_outputs(Columns columns) {
  columns.take("labels");
  if (columns.take("predicted")) return columns.take_all("p_") && columns.at_end();
  if (columns.take("label")) {
    columns.take("label_name");
  } else if (!columns.take("target") && !columns.take("rating")) {
    columns.take_numbered("target");
  }
  if (columns.take("class")) columns.take("class_name");
  const bool has_outputs = columns.take_numbered("y") || columns.take_numbered("p") ||
                           columns.take_numbered("margin") || columns.take("p1") || columns.take("margin1");
  return has_outputs && columns.at_end();
}

/// Whether a CSV file's first line is one that CsvSink writes: examples, what identifies them, answers and outputs. A
/// user's own table may also have a column 'example'.
bool names_predictions(const std::string& first_line) {
  Columns columns(first_line);
  if (!columns.take("example")) return false;
  while (!columns.at_end() && !name_outputs(columns)) columns.skip();
  return !columns.at_end();
}

/// Whether an HDF5 file has the datasets of Hdf5Sink, or of recommendations, and nothing else.
bool has_prediction_datasets(const data::hdf5::File& file) {
  const std::vector<std::string> found = file.children("");
  const auto has_only = [&](const std::set<std::string>& known) {
    return std::all_of(found.begin(), found.end(), [&](const std::string& one) { return known.contains(one); });
  };
  if (file.exists("predictions")) {
    return file.has_attribute("predictions", "outputs") &&
           has_only({"predictions", "classes", "labels", "targets", "ratings", "class_names", "label_names"});
  }
  return file.exists("scores") && file.exists("items") && has_only({"users", "items", "scores", "dictionary"});
}

bool holds_predictions(const std::string& path) {
  if (path.ends_with(".h5")) {
    return data::hdf5::is_hdf5(path) && has_prediction_datasets({path, data::hdf5::File::Mode::read});
  }
  std::string first_line;
  std::getline(std::ifstream(path), first_line);
  return names_predictions(first_line) || first_line == "user,rank,item,score";
}

}  // namespace

std::string output_name(const std::optional<records::ClassReading>& classes, Index outputs, Index n) {
  if (!classes) return fmt::format("y{}", n);
  return fmt::format("{}{}", classes->probabilities ? "p" : "margin", outputs == 1 ? 1 : n);
}

std::vector<std::string> columns_of(const SinkOptions& options) {
  const bool named = !options.class_names.empty();
  std::vector<std::string> names;
  if (!options.labels.empty()) {
    if (options.answer_width > 0) names.emplace_back("labels");
    names.emplace_back("predicted");
    for (const std::string& label : options.labels) names.push_back("p_" + label);
    return names;
  }
  for (Index i = 0; i < options.answer_width; ++i) {
    names.push_back(options.answer + (options.answer_width > 1 ? std::to_string(i) : ""));
  }
  if (has_labels(options) && named) names.emplace_back("label_name");
  if (options.classes) names.emplace_back("class");
  if (options.classes && named) names.emplace_back("class_name");
  for (Index i = 0; i < options.outputs; ++i) names.push_back(output_name(options.classes, options.outputs, i));
  return names;
}

std::string PredictionRows::header() const {
  std::vector<std::string> columns = columns_of(options_);
  for (std::string& column : columns) column = records::csv_text(column);
  return fmt::format("example{},{}\n", options_.label_names, fmt::join(columns, ","));
}

std::string PredictionRows::text(std::int64_t first, View rows, View answers) const {
  const auto outputs = static_cast<std::size_t>(options_.outputs);
  const auto width = static_cast<std::size_t>(options_.answer_width);
  fmt::memory_buffer text;
  for (std::size_t i = 0; i < rows.size() / outputs; ++i) {
    const View row = rows.subspan(i * outputs, outputs);
    const std::int64_t example = first + static_cast<std::int64_t>(i);
    fmt::format_to(std::back_inserter(text), "{}{}", example, options_.label ? options_.label(example) : "");
    if (!options_.labels.empty()) {
      if (width > 0) add_labels(options_, answers.subspan(i * width, width), text);
      add_labels(options_, row, text);
    } else {
      for (const float value : answers.subspan(i * width, width))
        add_value(options_, value, has_labels(options_), text);
    }
    if (options_.classes) add_value(options_, static_cast<float>(options_.classes->class_of(row)), true, text);
    for (const float value : row) fmt::format_to(std::back_inserter(text), ",{}", value);
    text.push_back('\n');
  }
  return fmt::to_string(text);
}

void require_replaceable(const std::string& path, bool overwrite) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return;
  if (!overwrite) {
    throw OutputError(fmt::format("{}: already exists; choose another --output, or add --overwrite", path));
  }
  if (!std::filesystem::is_regular_file(path) || holds_predictions(path)) return;
  throw OutputError(
      fmt::format("{}: exists and does not hold predictions, so it is not replaced; choose another --output", path));
}

std::unique_ptr<PredictionSink> make_prediction_sink(const SinkOptions& options) {
  require_replaceable(options.path, options.overwrite);
  if (options.path.ends_with(".h5")) return std::make_unique<Hdf5Sink>(options);
  if (options.path.ends_with(".csv")) return std::make_unique<CsvSink>(options);
  throw ConfigError(fmt::format("--output {}: predictions can be written to FILE.h5 or FILE.csv", options.path));
}

}  // namespace unisono::apply
