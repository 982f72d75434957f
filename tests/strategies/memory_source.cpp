#include "memory_source.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "unisono/base/random.hpp"

namespace unisono::strategies {
namespace {

Index size_of(const comm::Slice& slice) { return slice.last - slice.first; }

comm::Slice part_in(const comm::Slice& of, Index i, Index parts) {
  const comm::Slice part = comm::slice_of(size_of(of), static_cast<int>(i), static_cast<int>(parts));
  return {of.first + part.first, of.first + part.last};
}

}  // namespace

Examples random_examples(Index count, const data::FeatureShape& shape, Index classes) {
  Examples examples{.shape = shape, .classes = classes};
  RandomStream random(1, Purpose::test);
  for (Index i = 0; i < count; ++i) {
    float sum = 0;
    for (Index j = 0; j < shape.size(); ++j) {
      examples.features.push_back(random.uniform(-1, 1));
      sum += j % 2 == 0 ? examples.features.back() : -examples.features.back();
    }
    if (classes > 0) {
      const float share = (std::tanh(sum) + 1) / 2;
      const auto label = static_cast<std::int32_t>(share * static_cast<float>(classes));
      examples.labels.push_back(std::min(label, static_cast<std::int32_t>(classes - 1)));
    } else {
      examples.targets.push_back(sum + random.uniform(-0.5F, 0.5F));
    }
  }
  return examples;
}

std::int64_t MemorySource::steps_per_epoch() const {
  return (examples_.count() + dealing_.options.batch_size - 1) / dealing_.options.batch_size;
}

void MemorySource::seek(const data::DataCursor& cursor) {
  cursor_ = cursor;
  micro_ = own_micro_batches().first;
  skip_steps(dealing_.options.lane);
}

void MemorySource::skip_steps(std::int64_t steps) {
  const std::int64_t place = cursor_.epoch * steps_per_epoch() + cursor_.step + steps;
  cursor_ = {.epoch = place / steps_per_epoch(), .step = place % steps_per_epoch()};
}

std::vector<std::uint64_t> MemorySource::order_of_epoch() const {
  const auto count = static_cast<std::uint64_t>(examples_.count());
  const auto epoch = static_cast<std::uint64_t>(cursor_.epoch);
  if (dealing_.shuffle) return permutation(count, RandomStream(dealing_.options.seed, Purpose::order, epoch));
  std::vector<std::uint64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

comm::Slice MemorySource::step_places() const {
  const Index first = cursor_.step * dealing_.options.batch_size;
  return {first, std::min(first + dealing_.options.batch_size, examples_.count())};
}

comm::Slice MemorySource::own_micro_batches() const {
  const Index count = dealing_.options.micro_batches;
  if (dealing_.options.sharing != data::MicroBatchSharing::whole) return {0, count};
  const Index leaves = dealing_.options.leaves > 0 ? std::min(dealing_.options.leaves, count) : count;
  const comm::Slice own = comm::slice_of(leaves, dealing_.options.rank, dealing_.options.size);
  const auto first_of = [&](Index leaf) { return leaf * count / leaves; };
  return {first_of(own.first), first_of(own.last)};
}

comm::Slice MemorySource::micro_places(Index micro) const {
  comm::Slice step = step_places();
  const data::SourceOptions& options = dealing_.options;
  if (options.sharing == data::MicroBatchSharing::own) step = part_in(step, options.rank, options.size);
  return part_in(step, micro, options.micro_batches);
}

comm::Slice MemorySource::own_places(Index micro) const {
  const comm::Slice all = micro_places(micro);
  const data::SourceOptions& options = dealing_.options;
  return options.sharing == data::MicroBatchSharing::sliced ? part_in(all, options.rank, options.size) : all;
}

void MemorySource::gather() {
  numbers_.clear();
  features_.clear();
  labels_.clear();
  targets_.clear();
  const std::vector<std::uint64_t> order = order_of_epoch();
  const comm::Slice all = micro_places(micro_), own = own_places(micro_);
  for (Index place = own.first; place < own.last; ++place) {
    const Index rotated = all.first + (place - all.first + dealing_.rotation) % size_of(all);
    const std::uint64_t number = order[static_cast<std::size_t>(rotated)];
    numbers_.push_back(number);
    const auto features = examples_.features.begin() + static_cast<Index>(number) * examples_.shape.size();
    features_.insert(features_.end(), features, features + examples_.shape.size());
    if (!examples_.labels.empty()) labels_.push_back(examples_.labels[number]);
    if (!examples_.targets.empty()) targets_.push_back(examples_.targets[number]);
  }
}

data::Batch MemorySource::next() {
  gather();
  const comm::Slice own = own_micro_batches();
  data::Batch batch{.size = static_cast<Index>(numbers_.size()),
                    .micro_batch_size = size_of(micro_places(micro_)),
                    .global_size = size_of(step_places()),
                    .epoch = cursor_.epoch,
                    .micro_batch = micro_,
                    .micro_batches = dealing_.options.micro_batches,
                    .rank_micro_batches = std::max<Index>(1, size_of(own)),
                    .whole = dealing_.options.sharing == data::MicroBatchSharing::whole,
                    .last_of_step = micro_ + 1 >= own.last,
                    .last_of_epoch = cursor_.step + 1 == steps_per_epoch(),
                    .examples = numbers_,
                    .features = features_,
                    .labels = labels_,
                    .targets = targets_};
  for (Index micro = own.first; micro < own.last; ++micro) batch.rank_step_size += size_of(own_places(micro));
  if (++micro_ >= own.last) {
    micro_ = own.first;
    skip_steps(dealing_.options.lanes);
  }
  return batch;
}

}  // namespace unisono::strategies
