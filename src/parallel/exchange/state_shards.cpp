#include "unisono/parallel/state_shards.hpp"

#include <algorithm>

#include "unisono/comm/buckets.hpp"

namespace unisono::parallel {

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
