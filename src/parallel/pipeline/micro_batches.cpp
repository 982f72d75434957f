#include "pipeline/micro_batches.hpp"

#include <memory>

namespace unisono::parallel {
namespace {

/// The values in memory of `copy`.
template <typename Value>
std::span<const Value> kept_in(std::vector<Value>& copy, std::span<const Value> values) {
  copy.assign(values.begin(), values.end());
  return copy;
}

}  // namespace

const data::Batch& MicroBatches::operator[](int i) {
  while (read() <= i) read_one();
  return kept_[static_cast<std::size_t>(i)]->batch;
}

void MicroBatches::read_one() {
  auto kept = std::make_unique<Kept>();
  data::Batch& batch = kept->batch;
  batch = next_();
  batch.examples = kept_in(kept->examples, batch.examples);
  batch.movements = kept_in(kept->movements, batch.movements);
  batch.labels = kept_in(kept->labels, batch.labels);
  batch.targets = kept_in(kept->targets, batch.targets);
  batch.weights = kept_in(kept->weights, batch.weights);
  kept_.push_back(std::move(kept));
}

}  // namespace unisono::parallel
