#include "sparse/range_source.hpp"

#include <algorithm>

namespace unisono::data {

RangeSource::RangeSource(const LoadedSplit& split, const SourceOptions& options, bool shuffle)
    : split_(split),
      options_(options),
      shuffle_(shuffle),
      steps_(std::clamp<std::int64_t>((split.examples + options.batch_size - 1) / options.batch_size, 1, chunks())) {
  begin_epoch();
}

void RangeSource::begin_epoch() {
  if (shuffle_) {
    order_ = KeyedPermutation(static_cast<std::uint64_t>(chunks()),
                              RandomStream(options_.seed, Purpose::order, static_cast<std::uint64_t>(cursor_.epoch)));
  }
  examples_before_ = examples_at({0, part_of(chunks(), cursor_.step, steps_).first});
}

std::size_t RangeSource::chunk_at(std::int64_t place) const {
  const auto at = static_cast<std::uint64_t>(place);
  return static_cast<std::size_t>(shuffle_ ? order_(at) : at);
}

Index RangeSource::examples_at(Range places) const {
  Index examples = 0;
  for (std::int64_t place = places.first; place < places.last; ++place) {
    examples += split_.chunk_examples[chunk_at(place)];
  }
  return examples;
}

Batch RangeSource::next() {
  const Range step = part_of(chunks(), cursor_.step, steps_);
  const Range part = part_of(step.size(), options_.rank, options_.size);
  const Range own{step.first + part.first, step.first + part.last};
  ranges_.clear();
  for (std::int64_t place = own.first; place < own.last; ++place) ranges_.push_back(split_.chunks[chunk_at(place)]);

  Batch batch;
  batch.size = batch.rank_step_size = examples_at(own);
  batch.global_size = batch.micro_batch_size = examples_at(step);
  batch.epoch = cursor_.epoch;
  batch.epoch_examples_before = examples_before_;
  examples_before_ += batch.global_size;
  batch.last_of_epoch = cursor_.step + 1 == steps_;
  batch.set = &split_.set;
  batch.ranges = ranges_;
  if (++cursor_.step == steps_) {
    cursor_ = {.epoch = cursor_.epoch + 1, .step = 0};
    begin_epoch();
  }
  return batch;
}

void RangeSource::seek(const DataCursor& cursor) {
  cursor_ = {.epoch = cursor.epoch + cursor.step / steps_, .step = cursor.step % steps_};
  begin_epoch();
}

RangeEvaluation::RangeEvaluation(const LoadedSplit& split, int rank, int size, Index batch_size)
    : split_(split), begin_(split.chunks.front().first), batch_size_(batch_size) {
  const Range part = part_of(split.chunks.back().last - begin_, rank, size);
  part_ = {begin_ + part.first, begin_ + part.last};
  at_ = part_.first;
}

std::optional<Batch> RangeEvaluation::next() {
  if (at_ >= part_.last) return {};
  range_ = {at_, std::min<std::int64_t>(at_ + batch_size_, part_.last)};
  at_ = range_.last;
  Batch batch;
  batch.size = range_.size();
  batch.set = &split_.set;
  batch.ranges = {&range_, 1};
  return batch;
}

}  // namespace unisono::data
