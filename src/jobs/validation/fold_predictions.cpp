#include "validation/fold_predictions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <vector>

#include "unisono/apply/prediction_sink.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/records/csv_field.hpp"
#include "unisono/records/run_folder.hpp"

namespace unisono::jobs {
namespace {

/// One validated example.
struct Line {
  std::int64_t example = 0, fold = 0;
  std::size_t at = 0;  ///< of its outputs among all
};

/// Whether every example has one line. \param lines by example
bool each_once(const std::vector<Line>& lines, std::int64_t examples) {
  if (std::ssize(lines) != examples) return false;
  for (std::int64_t i = 0; i < examples; ++i) {
    if (lines[static_cast<std::size_t>(i)].example != i) return false;
  }
  return true;
}

/// \param lines one for each example, in their order
void write_hdf5(const std::string& path, const std::vector<Line>& lines, const std::vector<float>& outputs,
                std::size_t width, const std::vector<std::int32_t>& labels,
                const std::vector<std::string>& class_names) {
  apply::SinkOptions options{.path = path,
                             .examples = std::ssize(lines),
                             .outputs = static_cast<Index>(width),
                             .class_names = class_names,
                             .overwrite = true};
  if (!labels.empty()) {
    options.answer = "label";
    options.answer_width = 1;
  }
  std::vector<float> rows;
  for (const Line& line : lines) {
    const auto begin = outputs.begin() + static_cast<std::ptrdiff_t>(line.at);
    rows.insert(rows.end(), begin, begin + static_cast<std::ptrdiff_t>(width));
  }
  const std::vector<float> answers(labels.begin(), labels.end());
  const auto sink = apply::make_prediction_sink(options);
  sink->write(0, 0, rows, answers);
  sink->finish();
}

}  // namespace

std::vector<float> read_floats(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};
  const std::string bytes = records::read_text_file(path);
  std::vector<float> floats(bytes.size() / sizeof(float));
  if (!floats.empty()) std::memcpy(floats.data(), bytes.data(), floats.size() * sizeof(float));
  return floats;
}

void write_predictions(const std::string& folder, const Folds& folds, const PredictedSet& set,
                       const std::function<std::vector<float>(std::int64_t fold)>& outputs_of) {
  std::vector<Line> lines;
  std::vector<float> all;
  std::size_t width = 0;
  for (std::int64_t fold = 0; fold < folds.size(); ++fold) {
    const std::vector<float> outputs = outputs_of(fold);
    const std::vector<std::int64_t>& examples = folds.validation(fold);
    if (outputs.empty() || outputs.size() % examples.size() != 0) continue;
    width = outputs.size() / examples.size();
    for (std::size_t i = 0; i < examples.size(); ++i) lines.push_back({examples[i], fold, all.size() + i * width});
    all.insert(all.end(), outputs.begin(), outputs.end());
  }
  std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) { return a.example < b.example; });
  const std::vector<std::int32_t> labels = data::read_training_labels(set.path);
  const std::vector<std::string>& names = set.class_names;
  std::string text = labels.empty() ? "example,fold" : "example,fold,label";
  for (std::size_t i = 0; i < width; ++i) {
    text += "," + (names.size() == width ? records::csv_field(names[i]) : fmt::format("output_{}", i));
  }
  text += "\n";
  for (const Line& line : lines) {
    text += fmt::format("{},{}", line.example, line.fold);
    if (!labels.empty()) text += fmt::format(",{}", labels[static_cast<std::size_t>(line.example)]);
    for (std::size_t i = 0; i < width; ++i) text += fmt::format(",{}", all[line.at + i]);
    text += "\n";
  }
  records::write_text_file(folder + "/predictions.csv", text);
  if (width > 0 && each_once(lines, folds.rows())) {
    write_hdf5(folder + "/predictions.h5", lines, all, width, labels, names);
  }
}

}  // namespace unisono::jobs
