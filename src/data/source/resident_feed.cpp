#include "source/resident_feed.hpp"

namespace unisono::data {

ResidentFeed::ResidentFeed(RowBlock rows, const RowRuns& positions, Range share, bool shuffle, std::uint64_t seed,
                           std::uint32_t number)
    : rows_(rows), positions_(positions), share_(share), shuffle_(shuffle), seed_(seed), number_(number) {}

void ResidentFeed::gather(const MicroBatch& batch, std::vector<RawExample>& examples) {
  if (shuffle_ && batch.epoch != epoch_) {
    epoch_ = batch.epoch;
    order_ = KeyedPermutation(static_cast<std::uint64_t>(share_.size()),
                              RandomStream(seed_, Purpose::order, static_cast<std::uint64_t>(epoch_), number_));
  }
  examples.clear();
  for (std::int64_t i = batch.places.first; i < batch.places.last; ++i) {
    const std::int64_t place = batch.step_places.first + i;
    const auto chosen = shuffle_ ? static_cast<std::int64_t>(order_(static_cast<std::uint64_t>(place))) : place;
    examples.push_back(rows_.example(positions_.row(share_.first + chosen)));
  }
}

}  // namespace unisono::data
