#include "unisono/comm/buckets.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "unisono/base/clock.hpp"
#include "unisono/tensor/layout.hpp"

namespace unisono::comm {
namespace {

// The largest number of unused floats between blocks.
[[maybe_unused]] constexpr Index kGapFloats = kAlignmentBytes / sizeof(float) - 1;

}  // namespace

Index bucket_floats(Index bucket_bytes) {
  constexpr Index kUnit = kAlignmentBytes;  // so that a bucket begins at a cache line
  return std::max(Index{1}, (bucket_bytes + kUnit - 1) / kUnit) * (kUnit / static_cast<Index>(sizeof(float)));
}

GradientBuckets::GradientBuckets(Communicator& communicator, MutableView gradient, Index bucket_bytes,
                                 const Clock& clock)
    : GradientBuckets(
          static_cast<Index>(gradient.size()), bucket_bytes > 0 ? bucket_bytes : communicator.bucket_bytes(),
          [&communicator, gradient](Index first, Index last) {
            return communicator.start_allreduce_sum(part(gradient, {first, last}));
          },
          clock) {}

GradientBuckets::GradientBuckets(Index size, Index bucket_bytes, Start start, const Clock& clock)
    : size_(size),
      bucket_size_(bucket_floats(bucket_bytes)),
      start_(std::move(start)),
      clock_(clock),
      final_first_(size),
      started_first_(size) {}

void GradientBuckets::ready(Index first, [[maybe_unused]] Index last) {
  assert(last + kGapFloats >= final_first_ && first <= final_first_);
  final_first_ = first;
  const ScopedTimer timer(exposed_seconds_, clock_);
  if (!requests_.empty()) requests_.back()->make_progress();  // and with it all operations under way
  start_final_buckets();
}

void GradientBuckets::start_final_buckets() {
  while (started_first_ > 0) {
    const Index first = std::max(Index{0}, started_first_ - bucket_size_);
    if (first < final_first_) return;
    requests_.push_back(start_(first, started_first_));
    started_first_ = first;
  }
}

void GradientBuckets::finish() {
  final_first_ = 0;
  {
    const ScopedTimer timer(exposed_seconds_, clock_);
    start_final_buckets();
  }
  {
    const ScopedTimer timer(straggler_seconds_, clock_);
    if (!requests_.empty()) requests_.back()->wait_for_arrivals();
  }
  const ScopedTimer timer(exposed_seconds_, clock_);
  for (const RequestPtr& request : requests_) request->wait();
  requests_.clear();
  final_first_ = started_first_ = size_;
}

}  // namespace unisono::comm
