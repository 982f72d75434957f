#include "import/csv_output.hpp"

namespace unisono::data {
namespace {

constexpr std::size_t kRowsAtATime = 4096;
constexpr std::size_t kMostNames = 4000;  // an attribute of HDF5 holds 64 KiB: 16 bytes a name

}  // namespace

GroupWriter::GroupWriter(SetWriter& writer, const CsvTable& table, Split split, std::int64_t rows)
    : writer_(writer),
      name_(name_of(split)),
      width_(table.feature_names().size()),
      labels_(table.column_of(ColumnRole::label) != nullptr),
      targets_(table.column_of(ColumnRole::target) != nullptr),
      groups_(table.column_of(ColumnRole::group) != nullptr),
      times_(table.column_of(ColumnRole::time) != nullptr),
      weights_(table.column_of(ColumnRole::weight) != nullptr),
      rows_(rows) {
  if (rows == 0) return;
  writer_.create_features<float>(name_, rows, {static_cast<std::int64_t>(width_)});
  if (width_ <= kMostNames) writer_.file().write_attribute(name_ + "/features", "feature_names", table.feature_names());
}

void GroupWriter::add(const CsvRow& row) {
  features_.insert(features_.end(), row.features.begin(), row.features.end());
  if (labels_) all_labels_.push_back(row.label);
  if (targets_) all_targets_.push_back(row.target);
  if (groups_) all_groups_.push_back(row.group);
  if (times_) all_times_.push_back(row.time);
  if (weights_) all_weights_.push_back(row.weight);
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
  if (groups_) writer_.file().write(name_ + "/groups", all_groups_);
  if (times_) writer_.file().write(name_ + "/times", all_times_);
  if (weights_) writer_.file().write(name_ + "/weights", all_weights_);
}

}  // namespace unisono::data
