#include "source/train_source.hpp"

#include <algorithm>
#include <cassert>

#include "unisono/base/clock.hpp"

namespace unisono::data {
namespace {

constexpr int kBuffers = 3;  // one in use, two prepared

}  // namespace

TrainSource::TrainSource(const Schedule& schedule, std::unique_ptr<Feed> feed, const BatchWriter& writer,
                         const SourceOptions& options)
    : schedule_(schedule),
      feed_(std::move(feed)),
      writer_(writer),
      lane_(options.lane),
      lanes_(options.lanes),
      memory_(options.delivery.memory) {}

TrainSource::~TrainSource() { stop(); }

void TrainSource::start() {
  schedule_.seek(start_);
  feed_->seek(start_);
  skip_steps(lane_);
  std::vector<PreparedBatch> buffers;
  for (int i = 0; i < kBuffers; ++i) buffers.push_back(writer_.make(schedule_.largest_slice(), *memory_));
  prefetcher_.emplace(std::move(buffers), [this](PreparedBatch& prepared) { return prepare(prepared); });
}

void TrainSource::stop() {
  if (!prefetcher_) return;
  wait_seconds_ += prefetcher_->wait_seconds();
  feed_->interrupt();
  prefetcher_.reset();
}

bool TrainSource::prepare(PreparedBatch& prepared) {
  const MicroBatch micro = schedule_.current();
  feed_->gather(micro, examples_);
  Batch header;
  header.micro_batch_size = micro.micro_batch_size;
  header.global_size = micro.global_size;
  header.rank_step_size = micro.rank_step_size;
  header.epoch = micro.epoch;
  header.epoch_examples_before = micro.step_places.first;
  header.micro_batch = micro.number;
  header.micro_batches = micro.count;
  header.rank_micro_batches = micro.own;
  header.whole = micro.whole;
  header.last_of_step = micro.last_of_step;
  header.last_of_epoch = micro.last_of_epoch;
  writer_.write(examples_, header, prepared);
  schedule_.advance();
  if (micro.last_of_step) skip_steps(lanes_ - 1);
  return true;
}

void TrainSource::skip_steps(int count) {
  while (count > 0) {
    if (schedule_.current().last_of_step) --count;
    schedule_.advance();
  }
}

Batch TrainSource::next() {
  if (!prefetcher_) start();
  const Batch* batch = prefetcher_->next();
  assert(batch != nullptr);  // a training source has no end
  return *batch;
}

void TrainSource::seek(const DataCursor& cursor) {
  stop();
  start_ = cursor;
}

double TrainSource::wait_seconds() const { return wait_seconds_ + (prefetcher_ ? prefetcher_->wait_seconds() : 0.0); }

BatchWriter::BatchWriter(const GroupSchema& group, const Normalization& normalization, const BatchStyle& style)
    : writer_(group, normalization),
      style_(style),
      augments_(has_effect(style.augmentation)),
      feature_size_(static_cast<std::size_t>(style.inputs || style.features_are_targets ? group.features.size() : 0)),
      target_size_(static_cast<std::size_t>(style.features_are_targets ? 0 : style.target_size)),
      stored_bytes_(static_cast<std::size_t>(group.features.size()) * size_of(group.storage)) {}

void BatchWriter::deliver_kept(const RowBlock& rows, const KeepFeatures& keep) {
  if (!keep || !style_.inputs || style_.features_are_targets) return;  // the loss reads the features as targets
  const Range range = rows.rows();
  if (range.size() == 0) return;
  kept_ = keep(writer_.describe(rows.features(range.first), static_cast<std::uint64_t>(range.first), range.size()));
  if (kept_ == nullptr) return;
  feature_size_ = 0;
  movement_size_ = augments_ ? 1 : 0;
}

PreparedBatch BatchWriter::make(Index largest, Allocator& memory) const {
  PreparedBatch prepared;
  const auto count = static_cast<std::size_t>(largest);
  prepared.features = Buffer(static_cast<Index>(count * feature_size_), memory);
  prepared.movements.resize(count * movement_size_);
  prepared.targets = Buffer(static_cast<Index>(count * target_size_), memory);
  prepared.labels.resize(style_.labels ? count : 0);
  prepared.weights.resize(has_weights() ? count : 0);
  prepared.examples.resize(count);
  return prepared;
}

void BatchWriter::write_features(const RawExample& example, std::int64_t epoch, std::size_t i,
                                 PreparedBatch& prepared) {
  if (!style_.inputs && feature_size_ == 0) return;
  float* const out = prepared.features.data() + i * feature_size_;
  if (!augments_) {
    if (kept_ == nullptr) writer_.write(example.features, out);
    return;
  }
  const Movement movement = draw_movement(style_.augmentation, style_.seed, epoch, example.row);
  if (kept_ == nullptr) {
    writer_.write_moved(example.features, movement, out);
  } else {
    prepared.movements[i] = movement;
  }
}

float BatchWriter::weight_of(const RawExample& example) const {
  if (style_.class_weights.empty()) return example.weight;
  return example.weight * style_.class_weights[static_cast<std::size_t>(example.label)];
}

void BatchWriter::fetch_ahead(const RawExample& example) const {
  constexpr std::size_t kLine = 64, kMost = 4096;
  if (feature_size_ == 0 || kept_ != nullptr) return;
  for (std::size_t at = 0; at < std::min(stored_bytes_, kMost); at += kLine) __builtin_prefetch(example.features + at);
}

void BatchWriter::write(const std::vector<RawExample>& examples, const Batch& header, PreparedBatch& prepared) {
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const RawExample& example = examples[i];
    if (i + 1 < examples.size()) fetch_ahead(examples[i + 1]);
    write_features(example, header.epoch, i, prepared);
    if (style_.labels) prepared.labels[i] = example.label;
    if (has_weights()) prepared.weights[i] = weight_of(example);
    if (target_size_ > 0) {
      std::copy(example.targets, example.targets + target_size_, prepared.targets.data() + i * target_size_);
    }
    prepared.examples[i] = example.row;
  }
  const std::size_t count = examples.size();
  prepared.batch = header;
  prepared.batch.size = static_cast<Index>(count);
  prepared.batch.examples = std::span(prepared.examples).first(count);
  prepared.batch.features = prepared.features.view().first(count * feature_size_);
  prepared.batch.kept = kept_;
  prepared.batch.movements = std::span(prepared.movements).first(count * movement_size_);
  prepared.batch.labels = std::span(prepared.labels).first(style_.labels ? count : 0);
  prepared.batch.weights = std::span(prepared.weights).first(has_weights() ? count : 0);
  prepared.batch.targets =
      style_.features_are_targets ? prepared.batch.features : prepared.targets.view().first(count * target_size_);
}

Prefetcher::Prefetcher(std::vector<PreparedBatch> buffers, Prepare prepare)
    : buffers_(std::move(buffers)), prepare_(std::move(prepare)) {
  thread_.start([this] { run(); });
}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
}

void Prefetcher::run() {
  for (;;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stopped_ || prepared_ - kept_ < buffers_.size(); });
    if (stopped_) return;
    PreparedBatch& buffer = buffers_[prepared_ % buffers_.size()];
    lock.unlock();

    bool more = false;
    std::exception_ptr error;
    try {
      more = prepare_(buffer);
    } catch (...) {
      error = std::current_exception();
    }

    lock.lock();
    error_ = error;
    ended_ = !more;
    if (more) ++prepared_;
    lock.unlock();
    changed_.notify_all();
    if (!more) return;
  }
}

const Batch* Prefetcher::next() {
  const ScopedTimer timer(wait_seconds_);
  std::unique_lock lock(mutex_);
  kept_ = taken_;
  changed_.notify_all();
  changed_.wait(lock, [this] { return prepared_ > taken_ || ended_; });
  if (prepared_ > taken_) return &buffers_[taken_++ % buffers_.size()].batch;
  if (error_) std::rethrow_exception(error_);
  return nullptr;
}

}  // namespace unisono::data
