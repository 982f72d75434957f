#include "order/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

Schedule::Schedule(std::int64_t examples, const SourceOptions& options, bool fixed)
    : examples_(examples), options_(options), fixed_(fixed) {
  if (!fixed_) {
    share_ = {0, examples};
    order_batch_ = options.batch_size;
    steps_ = divide_up(examples, options.batch_size);
    return;
  }
  if (options.batch_size < options.size) {
    throw ConfigError(
        fmt::format("train.batch_size = {} leaves some of the {} ranks without any examples, because of data.partition "
                    "= \"fixed\"; make it at least {}, or use \"global\"",
                    options.batch_size, options.size, options.size));
  }
  share_ = part_of(examples, options.rank, options.size);
  order_batch_ = part_of(options.batch_size, options.rank, options.size).size();
  for (int rank = 0; rank < options.size; ++rank) {
    const std::int64_t batch = part_of(options.batch_size, rank, options.size).size();
    steps_ = std::max(steps_, divide_up(part_of(examples, rank, options.size).size(), batch));
  }
}

Range Schedule::step_places(int rank, std::int64_t step) const {
  const std::int64_t batch = fixed_ ? part_of(options_.batch_size, rank, options_.size).size() : options_.batch_size;
  const std::int64_t places = fixed_ ? part_of(examples_, rank, options_.size).size() : examples_;
  return {std::min(step * batch, places), std::min((step + 1) * batch, places)};
}

Index Schedule::micro_batches(std::int64_t step) const {
  if (!fixed_) return std::min<Index>(options_.accumulate, step_places(0, step).size());
  std::int64_t largest = 0;
  for (int rank = 0; rank < options_.size; ++rank) largest = std::max(largest, step_places(rank, step).size());
  return std::min<Index>(options_.accumulate, largest);
}

Range Schedule::slice(int rank, Range step, Index micro) const {
  const Range batch = part_of(step.size(), micro, micro_batches(step_));
  if (fixed_) return batch;
  const Range part = part_of(batch.size(), rank, options_.size);
  return {batch.first + part.first, batch.first + part.last};
}

MicroBatch Schedule::current() const {
  MicroBatch batch;
  batch.epoch = epoch_;
  batch.step = step_;
  batch.step_places = step_places(options_.rank, step_);
  const Index count = micro_batches(step_);
  batch.places = slice(options_.rank, batch.step_places, micro_);
  for (Index micro = 0; micro < count; ++micro) {
    batch.rank_step_size += slice(options_.rank, batch.step_places, micro).size();
  }
  for (int rank = 0; rank < (fixed_ ? options_.size : 1); ++rank) {
    const Range step = step_places(rank, step_);
    batch.global_size += step.size();
    batch.micro_batch_size += part_of(step.size(), micro_, count).size();
  }
  batch.last_of_step = micro_ + 1 == count;
  batch.last_of_epoch = batch.last_of_step && step_ + 1 == steps_;
  return batch;
}

void Schedule::advance() {
  if (++micro_ < micro_batches(step_)) return;
  micro_ = 0;
  if (++step_ < steps_) return;
  step_ = 0;
  ++epoch_;
}

void Schedule::seek(const DataCursor& cursor) {
  epoch_ = cursor.epoch + cursor.step / steps_;
  step_ = cursor.step % steps_;
  micro_ = 0;
}

Index Schedule::largest_slice() const {
  const std::int64_t micro = divide_up(order_batch_, std::min<Index>(options_.accumulate, order_batch_));
  return fixed_ ? micro : divide_up(micro, options_.size);
}

}  // namespace unisono::data
