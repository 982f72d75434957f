#include "sparse/range_source.hpp"

#include <algorithm>

namespace unisono::data {
namespace {

/// The blocks of some rows on diagonal `step`. \return their ratings
Index collect(const RatingGrid& grid, Range rows, Index step, std::vector<ExampleRange>& ranges) {
  Index examples = 0;
  ranges.clear();
  for (Index row = rows.first; row < rows.last; ++row) {
    ranges.push_back(grid.block(row, (row + step) % grid.side()));
    examples += ranges.back().size();
  }
  return examples;
}

}  // namespace

StrataSource::StrataSource(const LoadedSplit& split, const SourceOptions& options)
    : split_(split), rows_(part_of(split.grid->side(), options.rank, options.size)), first_example_{0} {
  const RatingGrid& grid = *split.grid;
  for (Index step = 0; step < grid.side(); ++step) {
    first_example_.push_back(first_example_.back());
    for (Index row = 0; row < grid.side(); ++row) {
      first_example_.back() += grid.block_size(row, (row + step) % grid.side());
    }
  }
}

Batch StrataSource::next() {
  const auto step = static_cast<std::size_t>(cursor_.step);
  Batch batch;
  batch.size = batch.rank_step_size = collect(*split_.grid, rows_, cursor_.step, ranges_);
  batch.global_size = batch.micro_batch_size = first_example_[step + 1] - first_example_[step];
  batch.epoch = cursor_.epoch;
  batch.epoch_examples_before = first_example_[step];
  batch.last_of_epoch = cursor_.step + 1 == steps_per_epoch();
  batch.set = &split_.set;
  batch.ranges = ranges_;
  cursor_ = batch.last_of_epoch ? DataCursor{.epoch = cursor_.epoch + 1, .step = 0}
                                : DataCursor{.epoch = cursor_.epoch, .step = cursor_.step + 1};
  return batch;
}

StrataEvaluation::StrataEvaluation(const LoadedSplit& split, int rank, int size)
    : split_(split), rows_(part_of(split.grid->side(), rank, size)) {}

std::optional<Batch> StrataEvaluation::next() {
  if (step_ == split_.grid->side()) return {};
  Batch batch;
  batch.size = collect(*split_.grid, rows_, step_++, ranges_);
  batch.set = &split_.set;
  batch.ranges = ranges_;
  return batch;
}

RangeSource::RangeSource(const LoadedSplit& split, const SourceOptions& options, bool shuffle)
    : split_(split),
      options_(options),
      shuffle_(shuffle),
      steps_((split.examples + options.batch_size - 1) / options.batch_size),
      whole_chunks_(std::holds_alternative<Text>(split.set)) {
  if (whole_chunks_) steps_ = std::clamp<std::int64_t>(steps_, 1, static_cast<std::int64_t>(chunks()));
  begin_epoch(0);
  seek({});
}

void RangeSource::begin_epoch(std::int64_t epoch) {
  order_.resize(chunks());
  first_place_.resize(chunks() + 1);
  const KeyedPermutation permuted(shuffle_ ? chunks() : 0,
                                  RandomStream(options_.seed, Purpose::order, static_cast<std::uint64_t>(epoch)));
  for (std::size_t i = 0; i < chunks(); ++i) {
    order_[i] = static_cast<std::uint32_t>(shuffle_ ? permuted(i) : i);
    first_place_[i + 1] = first_place_[i] + split_.chunk_examples[order_[i]];
  }
}

Range RangeSource::step_places() const {
  if (whole_chunks_) return part_of(split_.examples, cursor_.step, steps_);
  const std::int64_t first = cursor_.step * options_.batch_size;
  return {first, std::min<std::int64_t>(first + options_.batch_size, split_.examples)};
}

Index RangeSource::collect(Range places, std::vector<ExampleRange>& ranges) const {
  Index examples = 0;
  const auto begin = std::upper_bound(first_place_.begin(), first_place_.end(), places.first) - 1;
  for (auto i = static_cast<std::size_t>(begin - first_place_.begin()); i < chunks() && first_place_[i] < places.last;
       ++i) {
    const ExampleRange& chunk = split_.chunks[order_[i]];
    if (whole_chunks_) {
      if (first_place_[i] < places.first) continue;  // it belongs to the step and rank of its first word
      ranges.push_back(chunk);
      examples += split_.chunk_examples[order_[i]];
      continue;
    }
    const std::int64_t skipped = std::max<std::int64_t>(places.first - first_place_[i], 0);
    const std::int64_t cut = std::max<std::int64_t>(first_place_[i + 1] - places.last, 0);
    ranges.push_back({chunk.first + skipped, chunk.last - cut});
    examples += ranges.back().size();
  }
  return examples;
}

Batch RangeSource::next() {
  const Range step = step_places(), part = part_of(step.size(), options_.rank, options_.size);
  ranges_.clear();
  unused_.clear();
  Batch batch;
  batch.size = batch.rank_step_size = collect({step.first + part.first, step.first + part.last}, ranges_);
  batch.global_size = batch.micro_batch_size = whole_chunks_ ? collect(step, unused_) : step.size();
  batch.epoch = cursor_.epoch;
  batch.epoch_examples_before = step.first;
  batch.last_of_epoch = cursor_.step + 1 == steps_;
  batch.set = &split_.set;
  batch.ranges = ranges_;
  go_to({.epoch = cursor_.epoch, .step = cursor_.step + options_.lanes});
  return batch;
}

void RangeSource::seek(const DataCursor& cursor) {
  go_to({.epoch = cursor.epoch, .step = cursor.step + options_.lane});
}

void RangeSource::go_to(const DataCursor& cursor) {
  const std::int64_t epoch = cursor.epoch + cursor.step / steps_;
  if (epoch != cursor_.epoch) begin_epoch(epoch);
  cursor_ = {.epoch = epoch, .step = cursor.step % steps_};
}

RangeEvaluation::RangeEvaluation(const LoadedSplit& split, int rank, int size, Index batch_size)
    : split_(split), batch_size_(batch_size) {
  std::int64_t all = 0;
  for (const ExampleRange& chunk : split.chunks) all += chunk.size();
  part_ = part_of(all, rank, size);
  at_ = part_.first;
  skipped_ = at_;
  while (chunk_ < split.chunks.size() && skipped_ >= split.chunks[chunk_].size()) {
    skipped_ -= split.chunks[chunk_++].size();
  }
}

std::optional<Batch> RangeEvaluation::next() {
  if (at_ >= part_.last) return {};
  const Index size = std::min<Index>(batch_size_, part_.last - at_);
  ranges_.clear();
  for (Index left = size; left > 0;) {
    const ExampleRange& chunk = split_.chunks[chunk_];
    const std::int64_t first = chunk.first + skipped_, last = std::min(first + left, chunk.last);
    if (!ranges_.empty() && ranges_.back().last == first) {
      ranges_.back().last = last;
    } else {
      ranges_.push_back({first, last});
    }
    left -= last - first;
    skipped_ = last - chunk.first;
    if (last == chunk.last) ++chunk_, skipped_ = 0;
  }
  at_ += size;
  Batch batch;
  batch.size = size;
  batch.set = &split_.set;
  batch.ranges = ranges_;
  return batch;
}

}  // namespace unisono::data
