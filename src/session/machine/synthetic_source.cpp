#include "unisono/session/synthetic_source.hpp"

#include <algorithm>
#include <numeric>

#include "unisono/base/random.hpp"

namespace unisono::session {

SyntheticSource::SyntheticSource(const models::ModelInputs& inputs, const data::SourceOptions& options)
    : inputs_(inputs), options_(options) {
  const comm::Slice own = own_numbers();
  for (Index number = own.first; number < own.last; ++number) step_examples_ += own_size(number);
  const auto count = static_cast<std::size_t>(kSteps * step_examples_);
  RandomStream random(options.seed, Purpose::test, static_cast<std::uint64_t>(options.rank));
  features_ = Buffer(static_cast<Index>(count) * inputs.features.size(), *options.delivery.memory);
  for (float& value : features_.view()) value = random.uniform(-1, 1);
  const bool keeps = options.delivery.keep && options.delivery.inputs;
  if (keeps) kept_ = options.delivery.keep(stored_features(static_cast<Index>(count)));
  if (inputs.classes > 0) {
    labels_.resize(count);
    for (auto& label : labels_)
      label = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(inputs.classes)));
  }
  if (inputs.context > 0) draw_tokens(count, random);
  targets_ = Buffer(static_cast<Index>(count) * inputs.target_size, *options.delivery.memory);
  for (float& value : targets_.view()) value = random.uniform();
  examples_.resize(count);
  std::iota(examples_.begin(), examples_.end(), std::uint64_t{0});
}

void SyntheticSource::draw_tokens(std::size_t windows, RandomStream& random) {
  const auto draw = [&] { return static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(inputs_.rows))); };
  tokens_.resize(windows * static_cast<std::size_t>(inputs_.context));
  std::ranges::generate(tokens_, draw);
  if (inputs_.classes > 0) return;  // of the texts, not of their tokens
  labels_.resize(tokens_.size());
  std::ranges::generate(labels_, draw);
}

StoredFeatures SyntheticSource::stored_features(Index count) const {
  const auto channels = static_cast<std::size_t>(inputs_.features.channels);
  return {.storage = Storage::float32,
          .channels = inputs_.features.channels,
          .height = inputs_.features.height,
          .width = inputs_.features.width,
          .mean = std::vector<float>(channels, 0),
          .factor = std::vector<float>(channels, 1),
          .rows = std::as_bytes(features_.view()).data(),
          .first = 0,
          .count = count};
}

/// The micro-batches of a step that this rank takes part in.
comm::Slice SyntheticSource::own_numbers() const {
  if (options_.sharing != data::MicroBatchSharing::whole) return {0, options_.micro_batches};
  const Index leaves = options_.leaves > 0 ? std::min(options_.leaves, options_.micro_batches) : options_.micro_batches;
  const comm::Slice own = comm::slice_of(leaves, options_.rank, options_.size);
  const auto first_of = [&](Index leaf) { return leaf * options_.micro_batches / leaves; };
  return {first_of(own.first), first_of(own.last)};
}

Index SyntheticSource::own_size(Index number) const {
  const auto part = [](Index of, Index i, Index parts) {
    const comm::Slice slice = comm::slice_of(of, static_cast<int>(i), static_cast<int>(parts));
    return slice.last - slice.first;
  };
  const Index micro = part(options_.batch_size, number, options_.micro_batches);
  return options_.sharing == data::MicroBatchSharing::whole ? micro : part(micro, options_.rank, options_.size);
}

data::Batch SyntheticSource::next() {
  const comm::Slice own = own_numbers();
  const Index number = own.first + micro_batch_;
  const auto size = static_cast<std::size_t>(number < own.last ? own_size(number) : 0);
  const auto first = static_cast<std::size_t>(step_ % kSteps * step_examples_ + used_);
  const auto rows = [&](const auto& values) {
    const std::size_t width = examples_.empty() ? 0 : values.size() / examples_.size();
    return std::span(values).subspan(first * width, size * width);
  };
  data::Batch batch{.size = static_cast<Index>(size),
                    .global_size = options_.batch_size,
                    .rank_step_size = step_examples_,
                    .epoch = step_ / kStepsPerEpoch,
                    .micro_batch = number,
                    .micro_batches = options_.micro_batches,
                    .rank_micro_batches = std::max<Index>(1, own.last - own.first),
                    .whole = options_.sharing == data::MicroBatchSharing::whole,
                    .last_of_step = number + 1 >= own.last,
                    .last_of_epoch = (step_ + 1) % kStepsPerEpoch == 0,
                    .examples = rows(examples_),
                    .features = rows(features_.view()),
                    .kept = kept_,
                    .labels = rows(labels_),
                    .tokens = rows(tokens_),
                    .rows = std::max<Index>(1, inputs_.context),
                    .targets = rows(targets_.view())};
  used_ += batch.size;
  ++micro_batch_;
  if (batch.last_of_step) seek({.epoch = 0, .step = step_ + 1});
  return batch;
}

void SyntheticSource::seek(const data::DataCursor& cursor) {
  step_ = cursor.epoch * kStepsPerEpoch + cursor.step;
  micro_batch_ = used_ = 0;
}

}  // namespace unisono::session
