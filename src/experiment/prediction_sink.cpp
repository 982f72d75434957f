#include "prediction_sink.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "unisono/base/errors.hpp"
#include "unisono/base/seal.hpp"
#include "unisono/data/hdf5.hpp"

namespace unisono {
namespace {

[[noreturn]] void fail(const std::string& path, const std::string& reason) {
  throw OutputError(
      fmt::format("{}: the predictions cannot be written: {}; choose another file with --output", path, reason));
}

std::int32_t class_of(View row) {
  return static_cast<std::int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

class Hdf5Sink final : public PredictionSink {
 public:
  explicit Hdf5Sink(const SinkOptions& options) : options_(options), file_(open(aside())) {
    const auto examples = static_cast<std::uint64_t>(options.examples);
    file_->create<float>("predictions", {examples, static_cast<std::uint64_t>(options.outputs)});
    if (options.classes) file_->create<std::int32_t>("classes", {examples});
  }

  ~Hdf5Sink() override {
    file_.reset();
    std::error_code ignored;
    std::filesystem::remove(aside(), ignored);
  }

  void write(int, std::int64_t first, View rows) override {
    const auto outputs = static_cast<std::size_t>(options_.outputs);
    const std::size_t count = rows.size() / outputs;
    try {
      file_->write_rows<float>("predictions", static_cast<std::uint64_t>(first), count, rows.data());
      if (!options_.classes) return;
      std::vector<std::int32_t> classes;
      for (std::size_t i = 0; i < count; ++i) classes.push_back(class_of(rows.subspan(i * outputs, outputs)));
      file_->write_rows<std::int32_t>("classes", static_cast<std::uint64_t>(first), count, classes.data());
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
  static std::unique_ptr<hdf5::File> open(const std::string& path) {
    try {
      return std::make_unique<hdf5::File>(path, hdf5::File::Mode::create);
    } catch (const Error& error) {
      std::error_code ignored;
      std::filesystem::remove(path, ignored);
      throw OutputError(error.what());
    }
  }
  std::string aside() const { return options_.path + ".tmp"; }

  SinkOptions options_;
  std::unique_ptr<hdf5::File> file_;
};

/// One file a rank, which are joined at the end.
class CsvSink final : public PredictionSink {
 public:
  explicit CsvSink(const SinkOptions& options) : options_(options) {
    for (int rank = 0; rank < options.ranks; ++rank) {
      parts_.emplace_back(part(rank), std::ios::binary);
      if (!parts_.back()) fail(options.path, std::strerror(errno));
    }
    parts_.front() << header();
  }
  ~CsvSink() override {
    for (int rank = 0; rank < options_.ranks; ++rank) {
      std::error_code ignored;
      std::filesystem::remove(part(rank), ignored);
    }
  }

  void write(int rank, std::int64_t first, View rows) override {
    const auto outputs = static_cast<std::size_t>(options_.outputs);
    fmt::memory_buffer text;
    for (std::size_t i = 0; i < rows.size() / outputs; ++i) {
      const View row = rows.subspan(i * outputs, outputs);
      const std::int64_t example = first + static_cast<std::int64_t>(i);
      fmt::format_to(std::back_inserter(text), "{}{}", example, options_.label ? options_.label(example) : "");
      if (options_.classes) fmt::format_to(std::back_inserter(text), ",{}", class_of(row));
      for (const float value : row) fmt::format_to(std::back_inserter(text), ",{}", value);
      text.push_back('\n');
    }
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
  std::string header() const {
    std::string text = "example" + options_.label_names + (options_.classes ? ",class" : "");
    for (Index i = 0; i < options_.outputs; ++i) text += fmt::format(",{}{}", options_.classes ? "p" : "y", i);
    return text + "\n";
  }
  std::string part(int rank) const { return fmt::format("{}.{}.tmp", options_.path, rank); }

  SinkOptions options_;
  std::vector<std::ofstream> parts_;
};

bool holds_predictions(const std::string& path) {
  if (path.ends_with(".h5")) {
    if (!hdf5::is_hdf5(path)) return false;
    const hdf5::File file(path, hdf5::File::Mode::read);
    return file.exists("predictions") || file.exists("scores");
  }
  std::string first_line;
  std::getline(std::ifstream(path), first_line);
  return first_line.starts_with("example,") || first_line == "user,rank,item,score";
}

}  // namespace

void require_replaceable(const std::string& path) {
  if (!std::filesystem::is_regular_file(path) || holds_predictions(path)) return;
  throw OutputError(fmt::format(
      "{}: there is such a file, which holds no predictions and is left alone; choose another with --output", path));
}

std::unique_ptr<PredictionSink> make_prediction_sink(const SinkOptions& options) {
  require_replaceable(options.path);
  if (options.path.ends_with(".h5")) return std::make_unique<Hdf5Sink>(options);
  if (options.path.ends_with(".csv")) return std::make_unique<CsvSink>(options);
  throw ConfigError(fmt::format("--output {}: predictions go to FILE.h5 or FILE.csv", options.path));
}

}  // namespace unisono
