#include "unisono/parallel/slice_holding.hpp"

#include <algorithm>
#include <utility>

#include "unisono/comm/buckets.hpp"
#include "unisono/tensor/shard_map.hpp"

namespace unisono::parallel {

SliceHolding::SliceHolding(std::shared_ptr<const Holding> from, std::vector<FloatRange> slices, Place place,
                           SquaresReducer* squares)
    : from_(std::move(from)), slices_(std::move(slices)), place_(place), squares_(squares) {}

template <typename See>
void SliceHolding::for_each_slice(See see) const {
  Index packed = 0;
  for (const FloatRange& slice : slices_) {
    see(slice, place_ == Place::packed ? packed : slice.first);
    packed += slice.last - slice.first;
  }
}

Index SliceHolding::size() const {
  if (place_ == Place::in_place) return from_->size();
  Index size = 0;
  for (const FloatRange& slice : slices_) size += slice.last - slice.first;
  return size;
}

std::vector<Shard> SliceHolding::shards() const {
  const std::vector<Shard> from = from_->shards();
  std::vector<Shard> shards;
  for_each_slice([&](const FloatRange& slice, Index begin) {
    for (Shard& part : parts_of(from, slice)) {
      part.place.offset += begin;
      if (part.copy != Shard::kAgain) part.copy = 0;  // no other rank has it
      shards.push_back(std::move(part));
    }
  });
  return shards;
}

std::vector<BlockRange> SliceHolding::ranges() const {
  const std::vector<BlockRange> from = from_->ranges();
  std::vector<BlockRange> ranges;
  for_each_slice([&](const FloatRange& slice, Index begin) {
    for (const BlockRange& range : from) {
      const Index first = std::max(slice.first, range.floats.first), last = std::min(slice.last, range.floats.last);
      if (first >= last) continue;
      ranges.push_back({{begin + first - slice.first, begin + last - slice.first}, range.block, range.counts});
    }
  });
  return ranges;
}

bool are_faster_on_one_node(Index floats, int states, int ranks) {
  constexpr Index kLeastBytes = Index{128} << 20;  // by bench/compare-reductions
  return ranks * (2 + states) * floats * Index{sizeof(float)} >= kLeastBytes;
}

StateShards::StateShards(Index size, Index bucket_bytes, int ranks) : bucket_bytes_(bucket_bytes), ranks_(ranks) {
  const Index bucket = comm::bucket_floats(bucket_bytes);
  for (Index last = size; last > 0; last -= bucket) buckets_.push_back({std::max(Index{0}, last - bucket), last});
  std::ranges::reverse(buckets_);  // they are cut from the end
}

FloatRange StateShards::slice_of(const FloatRange& bucket, int rank) const {
  const comm::Slice slice = comm::line_slice_of(bucket.last - bucket.first, rank, ranks_);
  return {bucket.first + slice.first, bucket.first + slice.last};
}

std::vector<FloatRange> StateShards::ranges_of(int rank) const {
  std::vector<FloatRange> ranges;
  for (const FloatRange& bucket : buckets_) {
    const FloatRange slice = slice_of(bucket, rank);
    if (slice.first < slice.last) ranges.push_back(slice);
  }
  return ranges;
}

Index StateShards::size_of(int rank) const {
  Index size = 0;
  for (const FloatRange& range : ranges_of(rank)) size += range.last - range.first;
  return size;
}

}  // namespace unisono::parallel
