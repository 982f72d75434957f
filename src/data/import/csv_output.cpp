#include "import/csv_output.hpp"

#include <cmath>

namespace unisono::data {
namespace {

constexpr std::size_t kRowsAtATime = 4096;
constexpr std::size_t kMostNames = 4000;  // an attribute of HDF5 holds 64 KiB: 16 bytes a name

}  // namespace

Standardizer::Standardizer(const CsvTable& table) {
  for (const CsvColumn& column : table.columns) {
    if (column.role == ColumnRole::number) numeric_.push_back(true);
    if (column.role == ColumnRole::words) numeric_.resize(numeric_.size() + column.texts.size(), false);
  }
  mean_.resize(numeric_.size());
  squares_.resize(numeric_.size());
}

void Standardizer::add(const std::vector<float>& features) {
  ++count_;
  for (std::size_t i = 0; i < features.size(); ++i) {
    const double apart = features[i] - mean_[i];
    mean_[i] += apart / count_;
    squares_[i] += apart * (features[i] - mean_[i]);
  }
}

void Standardizer::apply(std::vector<float>& features) const {
  if (count_ == 0) return;
  for (std::size_t i = 0; i < features.size(); ++i) {
    const double deviation = std::sqrt(squares_[i] / count_);
    if (numeric_[i]) features[i] = static_cast<float>((features[i] - mean_[i]) / (deviation > 0 ? deviation : 1));
  }
}

GroupWriter::GroupWriter(SetWriter& writer, const CsvTable& table, Split split, std::int64_t rows)
    : writer_(writer),
      name_(name_of(split)),
      width_(table.feature_names().size()),
      labels_(table.column_of(ColumnRole::label) != nullptr),
      targets_(table.column_of(ColumnRole::target) != nullptr),
      rows_(rows) {
  if (rows == 0) return;
  writer_.create_features<float>(name_, rows, {static_cast<std::int64_t>(width_)});
  if (width_ <= kMostNames) writer_.file().write_attribute(name_ + "/features", "feature_names", table.feature_names());
}

void GroupWriter::add(const CsvRow& row) {
  features_.insert(features_.end(), row.features.begin(), row.features.end());
  if (labels_) all_labels_.push_back(row.label);
  if (targets_) all_targets_.push_back(row.target);
  if (features_.size() >= kRowsAtATime * width_) flush();
}

void GroupWriter::flush() {
  const auto count = static_cast<std::int64_t>(features_.size() / width_);
  writer_.write_features(name_, written_, count, features_.data());
  written_ += count;
  features_.clear();
}

void GroupWriter::finish() {
  if (rows_ == 0) return;
  flush();
  if (labels_) writer_.file().write(name_ + "/labels", all_labels_);
  if (targets_) writer_.file().write(name_ + "/targets", all_targets_);
}

}  // namespace unisono::data
