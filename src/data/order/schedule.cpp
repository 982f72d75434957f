#include "order/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>

#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// ⌈√n⌉, at least 1.
std::uint64_t ceil_root(std::uint64_t n) {
  auto root = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(n)));
  while (root > 0 && (root - 1) * (root - 1) >= n) --root;
  while (root * root < n) ++root;
  return root > 0 ? root : 1;
}

/// Hashes both to 32 bits: the finaliser of SplitMix64 (Steele, Lea & Flood, OOPSLA 2014).
std::uint64_t round_bits(std::uint64_t value, std::uint64_t key) {
  std::uint64_t z = (value ^ key) * 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z >> 32;
}

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
                    "= \"fixed\"; make it at least {}, or start fewer ranks",
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

/// The number of micro-batches of the present step or, if each rank divides its own part, of this rank's part.
Index Schedule::micro_batches() const {
  std::int64_t largest = 0;
  for (int rank = 0; rank < (fixed_ ? options_.size : 1); ++rank) {
    largest = std::max(largest, step_places(rank, step_).size());
  }
  if (is_shared(MicroBatchSharing::own)) largest = part_of(largest, options_.rank, options_.size).size();
  return std::min<Index>(options_.micro_batches, largest);
}

/// The micro-batches of the present step of which this rank has a part.
Range Schedule::own_numbers() const {
  const Index count = micro_batches();
  if (!is_shared(MicroBatchSharing::whole)) return {0, count};
  const Index leaves = options_.leaves > 0 ? std::min(options_.leaves, count) : count;
  const Range own = part_of(leaves, options_.rank, options_.size);
  if (own.size() == 0) return {0, 0};
  return {part_of(count, own.first, leaves).first, part_of(count, own.last - 1, leaves).last};
}

/// A rank's places in a micro-batch, counted from the first place of the present step.
Range Schedule::places_of(int rank, Index number) const {
  const auto part_in = [](Range of, std::int64_t i, std::int64_t parts) {
    const Range part = part_of(of.size(), i, std::max<std::int64_t>(parts, 1));
    return Range{of.first + part.first, of.first + part.last};
  };
  const Range step = {0, step_places(rank, step_).size()};
  const Index count = micro_batches();
  if (is_shared(MicroBatchSharing::own)) return part_in(part_in(step, rank, options_.size), number, count);
  const Range batch = part_in(step, number, count);
  return is_shared(MicroBatchSharing::sliced) ? part_in(batch, rank, options_.size) : batch;
}

MicroBatch Schedule::current() const {
  const Range own = own_numbers();
  MicroBatch batch;
  batch.epoch = epoch_;
  batch.step = step_;
  batch.number = own.first + micro_;
  batch.count = micro_batches();
  batch.own = std::max<Index>(1, own.size());
  batch.whole = is_shared(MicroBatchSharing::whole);
  batch.step_places = step_places(options_.rank, step_);
  if (own.size() > 0) batch.places = places_of(options_.rank, batch.number);
  for (Index number = own.first; number < own.last; ++number) {
    batch.rank_step_size += places_of(options_.rank, number).size();
  }
  batch.micro_batch_size = batch.places.size();
  if (fixed_ || is_shared(MicroBatchSharing::sliced)) {
    batch.micro_batch_size = 0;
    for (int rank = 0; rank < options_.size; ++rank) batch.micro_batch_size += places_of(rank, batch.number).size();
  }
  for (int rank = 0; rank < (fixed_ ? options_.size : 1); ++rank) batch.global_size += step_places(rank, step_).size();
  batch.last_of_step = micro_ + 1 >= own.size();
  batch.last_of_epoch = batch.last_of_step && step_ + 1 == steps_;
  return batch;
}

void Schedule::advance() {
  if (++micro_ < own_numbers().size()) return;
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
  const auto micro_of = [&](std::int64_t step) {
    return divide_up(step, std::min<Index>(options_.micro_batches, step));
  };
  if (is_shared(MicroBatchSharing::sliced)) return divide_up(micro_of(order_batch_), options_.size);
  if (is_shared(MicroBatchSharing::own)) return micro_of(divide_up(order_batch_, options_.size));
  return micro_of(order_batch_);
}

KeyedPermutation::KeyedPermutation(std::uint64_t n, RandomStream random) : n_(n), side_(ceil_root(n)) {
  for (std::uint64_t& key : keys_) {
    const std::uint64_t high = random.bits();
    key = (high << 32) | random.bits();
  }
}

std::uint64_t KeyedPermutation::operator()(std::uint64_t place) const {
  assert(place < n_);
  do {
    std::uint64_t left = place / side_, right = place % side_;
    for (const std::uint64_t key : keys_) {
      std::uint64_t sum = left + ((round_bits(right, key) * side_) >> 32);  // F < side: no division
      if (sum >= side_) sum -= side_;
      left = right;
      right = sum;
    }
    place = left * side_ + right;
  } while (place >= n_);
  return place;
}

}  // namespace unisono::data
