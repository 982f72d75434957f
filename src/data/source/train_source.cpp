#include "source/train_source.hpp"

#include <cassert>

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

}  // namespace unisono::data
