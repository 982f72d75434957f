#include "run/sample_source.hpp"

#include <variant>

namespace unisono::session {
namespace {

constexpr Index kMostFloats = Index{1} << 22;  // of a table

template <typename Values>
auto copy_of(const Values& values) {
  return std::vector<std::remove_cv_t<typename Values::element_type>>(values.begin(), values.end());
}

template <typename Values>
auto part_of(const Values& values, std::uint64_t first, std::uint64_t last) {
  return values.empty() ? values : values.subspan(first, last - first);
}

void append(std::vector<float>& to, View values) { to.insert(to.end(), values.begin(), values.end()); }

}  // namespace

SampleSource::SampleSource(data::BatchSource& source, Index examples) {
  Index own = 0, floats = 0;
  for (bool ended = false; !ended && own < examples && floats < kMostFloats;) {
    const data::Batch batch = source.next();
    if (steps_.empty() && batch.set != nullptr) set_ = *batch.set;
    own += take(batch);
    floats += std::ssize(batch.features);
    ended = batch.last_of_epoch;
  }
  bind();
}

/// \return the batch's examples
Index SampleSource::take(const data::Batch& batch) {
  Step& step = steps_.emplace_back(Step{batch,
                                        {},
                                        copy_of(batch.examples),
                                        copy_of(batch.labels),
                                        copy_of(batch.features),
                                        copy_of(batch.targets),
                                        copy_of(batch.weights)});
  step.batch.epoch_examples_before = examples_;
  examples_ += batch.global_size;
  for (const data::ExampleRange& range : batch.ranges) {
    const auto* const rows = std::get_if<data::LabelledRows>(batch.set);
    const auto first = rows != nullptr ? std::ssize(offsets_) - 1 : std::ssize(entries_);
    step.ranges.push_back({first, first + range.size()});
    rows != nullptr ? take_range(*rows, range) : take_range(std::get<data::SparseEntries>(*batch.set), range);
  }
  return batch.size;
}

void SampleSource::take_range(const data::LabelledRows& rows, data::ExampleRange range) {
  const auto first_row = static_cast<std::size_t>(range.first), last_row = static_cast<std::size_t>(range.last);
  const std::uint64_t first = rows.rows.offsets[first_row], last = rows.rows.offsets[last_row];
  const std::uint64_t before = offsets_.back();
  for (std::size_t row = first_row; row < last_row; ++row) {
    offsets_.push_back(before + rows.rows.offsets[row + 1] - first);
  }
  const auto columns = part_of(rows.rows.columns, first, last);
  columns_.insert(columns_.end(), columns.begin(), columns.end());
  append(values_, part_of(rows.rows.values, first, last));
  append(targets_, part_of(rows.targets, first_row, last_row));
  append(weights_, part_of(rows.weights, first_row, last_row));
}

void SampleSource::take_range(data::SparseEntries entries, data::ExampleRange range) {
  entries_.insert(entries_.end(), entries.begin() + range.first, entries.begin() + range.last);
}

/// Lets the steps' views point to the copies.
void SampleSource::bind() {
  if (auto* const rows = std::get_if<data::LabelledRows>(&set_)) {
    rows->rows.offsets = offsets_;
    rows->rows.columns = columns_;
    rows->rows.values = values_;
    rows->targets = targets_;
    rows->weights = weights_;
  } else {
    set_ = data::SparseEntries(entries_);
  }
  for (Step& step : steps_) {
    step.batch.examples = step.examples;
    step.batch.features = step.features;
    step.batch.labels = step.labels;
    step.batch.targets = step.targets;
    step.batch.weights = step.weights;
    step.batch.ranges = step.ranges;
    if (step.batch.set != nullptr) step.batch.set = &set_;
  }
}

data::Batch SampleSource::next() {
  data::Batch batch = steps_[static_cast<std::size_t>(cursor_.step)].batch;
  batch.epoch = cursor_.epoch;
  seek({.epoch = cursor_.epoch, .step = cursor_.step + 1});
  batch.last_of_epoch = cursor_.step == 0;
  return batch;
}

void SampleSource::seek(const data::DataCursor& cursor) {
  const std::int64_t steps = steps_per_epoch();
  cursor_ = {.epoch = cursor.epoch + cursor.step / steps, .step = cursor.step % steps};
}

}  // namespace unisono::session
