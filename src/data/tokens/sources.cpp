#include "tokens/sources.hpp"

#include <algorithm>
#include <limits>

#include "unisono/base/clock.hpp"
#include "unisono/base/random.hpp"

namespace unisono::data {

void Windows::begin(const Batch& header, Index windows) {
  const auto values = static_cast<std::size_t>(windows * context_);
  batch_ = header;
  batch_.size = windows;
  batch_.rows = context_;
  examples_.clear();
  tokens_.clear();
  labels_.clear();
  examples_.reserve(static_cast<std::size_t>(windows));
  tokens_.reserve(inputs_ ? values : 0);
  labels_.reserve(values);
}

void Windows::add(std::int64_t window, std::int64_t offset) {
  const std::int64_t begin = offset + window * stride_;
  const Index uncounted = window == 0 ? 0 : context_ - stride_;
  const std::int64_t predicted = std::min<std::int64_t>(context_, text_.count - 1 - begin);
  window_.resize(static_cast<std::size_t>(predicted + 1));
  text_.stream.read(text_.first + begin, window_);
  const auto padding = static_cast<std::size_t>(context_ - predicted);
  examples_.push_back(static_cast<std::uint64_t>(window));
  labels_.insert(labels_.end(), window_.begin() + 1, window_.end());
  labels_.insert(labels_.end(), padding, -1);
  std::fill_n(labels_.end() - context_, uncounted, -1);
  if (!inputs_) return;
  tokens_.insert(tokens_.end(), window_.begin(), window_.end() - 1);
  tokens_.insert(tokens_.end(), padding, 0);
}

const Batch& Windows::batch() {
  batch_.examples = examples_;
  batch_.tokens = tokens_;
  batch_.labels = labels_;
  return batch_;
}

void Windows::fetch(std::int64_t window, std::int64_t offset) const {
  const std::int64_t begin = offset + window * stride_;
  text_.stream.fetch(text_.first + begin, std::min<std::int64_t>(context_ + 1, text_.count - begin));
}

void WindowOffsets::begin_epoch(std::uint64_t seed, std::int64_t epoch) {
  constexpr std::uint32_t kOffset = std::numeric_limits<std::uint32_t>::max();  // no rank's order has this number
  seed_ = seed;
  epoch_ = static_cast<std::uint32_t>(epoch);
  common_ = static_cast<std::int64_t>(RandomStream(seed, Purpose::order, static_cast<std::uint64_t>(epoch), kOffset)
                                          .below(static_cast<std::uint64_t>(context_)));
}

std::int64_t WindowOffsets::operator()(std::int64_t window) const {
  if (places_ == 0) return common_;
  RandomStream random(seed_, Purpose::windows, static_cast<std::uint64_t>(window), epoch_);
  return static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(places_))) - window * context_;
}

TokenSource::TokenSource(const Schedule& schedule, std::unique_ptr<TokenBatches> batches, const WindowOffsets& offsets,
                         bool shuffle, const SourceOptions& options, std::uint32_t number)
    : schedule_(schedule),
      batches_(std::move(batches)),
      offsets_(offsets),
      shuffle_(shuffle),
      seed_(options.seed),
      number_(number),
      lane_(options.lane),
      lanes_(options.lanes) {
  seek({});
}

void TokenSource::begin_epoch(std::int64_t epoch) {
  epoch_ = epoch;
  if (!shuffle_) return;
  offsets_.begin_epoch(seed_, epoch);
  order_ = KeyedPermutation(static_cast<std::uint64_t>(schedule_.share().size()),
                            RandomStream(seed_, Purpose::order, static_cast<std::uint64_t>(epoch), number_));
}

/// The example at a place of this rank's order.
std::int64_t TokenSource::example_at(std::int64_t place) const {
  const auto chosen = shuffle_ ? static_cast<std::int64_t>(order_(static_cast<std::uint64_t>(place))) : place;
  return schedule_.share().first + chosen;
}

Batch TokenSource::next() {
  const ScopedTimer timer(wait_seconds_);
  const MicroBatch micro = schedule_.current();
  if (micro.epoch != epoch_) begin_epoch(micro.epoch);
  batches_->begin(header_of(micro), micro.places.size());
  for (std::int64_t i = micro.places.first; i < micro.places.last; ++i) {
    const std::int64_t example = example_at(micro.step_places.first + i);
    batches_->add(example, offset_of(example));
  }
  schedule_.advance();
  if (micro.last_of_step) skip_steps(lanes_ - 1);
  const MicroBatch after = schedule_.current();
  for (std::int64_t i = after.places.first; after.epoch == epoch_ && i < after.places.last; ++i) {
    const std::int64_t example = example_at(after.step_places.first + i);
    batches_->fetch(example, offset_of(example));
  }
  return batches_->batch();
}

void TokenSource::seek(const DataCursor& cursor) {
  schedule_.seek(cursor);
  skip_steps(lane_);
}

void TokenSource::skip_steps(int count) {
  while (count > 0) {
    if (schedule_.current().last_of_step) --count;
    schedule_.advance();
  }
}

std::unique_ptr<BatchSource> make_token_source(const DataSettings& settings, const SourceOptions& options,
                                               std::int64_t examples, std::unique_ptr<TokenBatches> batches,
                                               std::int64_t places) {
  const bool is_fixed = settings.partition == Partition::fixed;
  const auto number = is_fixed && options.size > 1 ? static_cast<std::uint32_t>(1 + options.rank) : 0U;
  return std::make_unique<TokenSource>(Schedule(examples, options, is_fixed), std::move(batches),
                                       WindowOffsets(settings.context, places), settings.shuffle, options, number);
}

std::optional<Batch> TokenPass::next() {
  const Range now{next_, std::min<std::int64_t>(next_ + batch_size_, part_.last)};
  if (now.size() == 0) return std::nullopt;
  next_ = now.last;
  Batch header;
  header.micro_batch_size = header.global_size = header.rank_step_size = now.size();
  header.last_of_epoch = next_ == part_.last;
  batches_->begin(header, now.size());
  for (std::int64_t example = now.first; example < now.last; ++example) batches_->add(example, 0);
  return batches_->batch();
}

}  // namespace unisono::data
