#include <algorithm>
#include <cassert>

#include "source/batch_sources.hpp"
#include "unisono/base/clock.hpp"

namespace unisono::data {
namespace {

constexpr int kBuffers = 3;  // one in use, two prepared

/// Mirrors an image. \param image [C, H, W]
void flip(const FeatureShape& shape, std::span<std::uint8_t> image) {
  const auto width = static_cast<std::size_t>(shape.width);
  for (std::size_t row = 0; row < image.size(); row += width) std::ranges::reverse(image.subspan(row, width));
}

}  // namespace

TrainSource::TrainSource(const Schedule& schedule, std::unique_ptr<Feed> feed, const BatchWriter& writer,
                         const SourceOptions& options)
    : schedule_(schedule),
      feed_(std::move(feed)),
      writer_(writer),
      lane_(options.lane),
      lanes_(options.lanes),
      memory_(options.delivery.memory),
      ahead_(options.ahead) {}

TrainSource::~TrainSource() { stop(); }

void TrainSource::start() {
  schedule_.seek(start_);
  feed_->seek(start_);
  skip_steps(lane_);
  if (!ahead_) {
    prepared_ = writer_.make(schedule_.largest_slice(), *memory_);
    return;
  }
  std::vector<PreparedBatch> buffers;
  for (int i = 0; i < kBuffers; ++i) buffers.push_back(writer_.make(schedule_.largest_slice(), *memory_));
  prefetcher_.emplace(std::move(buffers), [this](PreparedBatch& prepared) { return prepare(prepared); });
}

void TrainSource::stop() {
  prepared_.reset();
  if (!prefetcher_) return;
  wait_seconds_ += prefetcher_->wait_seconds();
  feed_->interrupt();
  prefetcher_.reset();
}

bool TrainSource::prepare(PreparedBatch& prepared) {
  const MicroBatch micro = schedule_.current();
  feed_->gather(micro, gathered_);
  writer_.write(gathered_, header_of(micro), prepared);
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
  if (!prefetcher_ && !prepared_) start();
  if (prepared_) {
    prepare(*prepared_);
    return prepared_->batch;
  }
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
    : style_(style),
      shape_(group.features),
      are_pictures_(group.pictures != nullptr),
      workers_(static_cast<std::size_t>(are_pictures_ ? style.threads : 1),
               Worker{FeatureWriter(group, normalization), StoredNumbers(group)}),
      changes_(changes_images(style.augmentation)),
      feature_size_(static_cast<std::size_t>(style.inputs || style.features_are_targets ? group.features.size() : 0)),
      target_size_(static_cast<std::size_t>(style.features_are_targets ? 0 : style.target_size)),
      stored_bytes_(static_cast<std::size_t>(group.features.size()) * size_of(group.storage)) {}

void BatchWriter::deliver_kept(const RowBlock& rows, const KeepFeatures& keep) {
  if (!keep || !style_.inputs || style_.features_are_targets) return;  // the loss reads the features as targets
  if (are_pictures_ || mixes() || !only_moves(style_.augmentation)) return;
  const Range range = rows.rows();
  if (range.size() == 0) return;
  kept_ = keep(workers_.front().writer.describe(rows.features(range.first), static_cast<std::uint64_t>(range.first),
                                                range.size()));
  if (kept_ == nullptr) return;
  feature_size_ = 0;
  movement_size_ = changes_ ? 1 : 0;
}

PreparedBatch BatchWriter::make(Index largest, Allocator& memory) const {
  PreparedBatch prepared;
  const auto count = static_cast<std::size_t>(largest);
  prepared.features = Buffer(static_cast<Index>(count * feature_size_), memory);
  prepared.movements.resize(count * movement_size_);
  prepared.targets = Buffer(static_cast<Index>(count * target_size_), memory);
  prepared.labels.resize(style_.labels ? count : 0);
  prepared.other_labels.resize(style_.labels && mixes() ? count : 0);
  prepared.other_shares.resize(prepared.other_labels.size());
  prepared.weights.resize(has_weights() ? count : 0);
  prepared.examples.resize(count);
  return prepared;
}

const std::byte* BatchWriter::numbers_of(Worker& worker, const RawExample& example, std::int64_t epoch) const {
  if (style_.augmentation.crop_area == 1) return worker.numbers.of(example);
  return worker.numbers.of_part(example, [&](std::int64_t height, std::int64_t width) {
    const double aspect = static_cast<double>(shape_.width) / static_cast<double>(shape_.height);
    return draw_crop(style_.augmentation, aspect, style_.seed, epoch, example.row, height, width);
  });
}

void BatchWriter::write_features(Worker& worker, const RawExample& example, std::int64_t epoch, float* out) const {
  const std::byte* const numbers = numbers_of(worker, example, epoch);
  const AugmentationSettings& asked = style_.augmentation;
  if (!changes_) return worker.writer.write(numbers, out);
  if (only_moves(asked)) {
    const Movement movement = draw_movement(asked, style_.seed, epoch, example.row);
    const bool own = numbers != example.features;
    if (!own || movement.down != 0 || movement.right != 0) return worker.writer.write_moved(numbers, movement, out);
    if (movement.flipped) flip(shape_, worker.numbers.image());
    return worker.writer.write(numbers, out);
  }
  worker.writer.write_changed(numbers, draw_augmentation(asked, shape_, style_.seed, epoch, example.row), asked.fill,
                              out);
}

template <typename Act>
void BatchWriter::for_each(std::size_t count, const Act& act) {
  if (workers_.size() == 1) {
    for (std::size_t i = 0; i < count; ++i) act(workers_.front(), i);
    return;
  }
  if (!team_) team_ = std::make_shared<ThreadTeam>(static_cast<int>(workers_.size()), "decoding pictures");
  team_->run_each(0, count, [&](int thread, std::size_t i) { act(workers_[static_cast<std::size_t>(thread)], i); });
}

void BatchWriter::write_features(const GatheredExamples& gathered, std::int64_t epoch, PreparedBatch& prepared) {
  const std::vector<RawExample>& examples = gathered.examples;
  if (kept_ != nullptr) {
    for (std::size_t i = 0; i < examples.size() * movement_size_; ++i) {
      prepared.movements[i] = draw_movement(style_.augmentation, style_.seed, epoch, examples[i].row);
    }
  }
  if (feature_size_ == 0) return;
  const bool mixed = !gathered.partners.empty();
  if (mixed) unmixed_.resize(examples.size() * feature_size_);
  float* const rows = mixed ? unmixed_.data() : prepared.features.data();
  for_each(examples.size(), [&](Worker& worker, std::size_t i) {
    if (i + 1 < examples.size()) fetch_ahead(examples[i + 1]);
    write_features(worker, examples[i], epoch, rows + i * feature_size_);
  });
  if (!mixed) return;
  for_each(gathered.partners.size(), [&](Worker&, std::size_t i) {
    mix_features(shape_, mixings_[i], rows + i * feature_size_, rows + gathered.partners[i] * feature_size_,
                 prepared.features.data() + i * feature_size_);
  });
}

float BatchWriter::weight_of(const RawExample& example) const {
  if (style_.class_weights.empty()) return example.weight;
  return example.weight * style_.class_weights[static_cast<std::size_t>(example.label)];
}

void BatchWriter::fetch_ahead(const RawExample& example) const {
  constexpr std::size_t kLine = 64, kMost = 4096;
  if (feature_size_ == 0 || kept_ != nullptr || are_pictures_) return;
  for (std::size_t at = 0; at < std::min(stored_bytes_, kMost); at += kLine) __builtin_prefetch(example.features + at);
}

void BatchWriter::write_answer(const RawExample& example, std::size_t i, PreparedBatch& prepared) const {
  if (style_.labels) prepared.labels[i] = example.label;
  if (has_weights()) prepared.weights[i] = weight_of(example);
  if (target_size_ == 0) return;
  std::copy(example.targets, example.targets + target_size_, prepared.targets.data() + i * target_size_);
}

void BatchWriter::write_answer(const RawExample& own, const RawExample& other, const Mixing& mixing, std::size_t i,
                               PreparedBatch& prepared) const {
  const float share = mixing.share, rest = 1 - share;
  const float own_part = share * weight_of(own), other_part = rest * weight_of(other), weight = own_part + other_part;
  if (has_weights()) prepared.weights[i] = weight;
  if (style_.labels) {
    const bool own_first = share >= rest;
    prepared.labels[i] = own_first ? own.label : other.label;
    prepared.other_labels[i] = own_first ? other.label : own.label;
    prepared.other_shares[i] = weight > 0 ? (own_first ? other_part : own_part) / weight : 0;
  }
  for (std::size_t k = 0; k < target_size_; ++k) {
    prepared.targets.data()[i * target_size_ + k] = share * own.targets[k] + rest * other.targets[k];
  }
}

void BatchWriter::write(const GatheredExamples& gathered, const Batch& header, PreparedBatch& prepared) {
  const std::vector<RawExample>& examples = gathered.examples;
  const bool mixed = !gathered.partners.empty();
  const std::size_t count = mixed ? gathered.partners.size() : examples.size();
  mixings_.clear();
  for (std::size_t i = 0; i < gathered.partners.size(); ++i) {
    mixings_.push_back(draw_mixing(style_.augmentation, shape_, style_.seed, header.epoch, examples[i].row));
  }
  write_features(gathered, header.epoch, prepared);
  for (std::size_t i = 0; i < count; ++i) {
    prepared.examples[i] = examples[i].row;
    if (mixed) {
      write_answer(examples[i], examples[gathered.partners[i]], mixings_[i], i, prepared);
    } else {
      write_answer(examples[i], i, prepared);
    }
  }
  prepared.batch = header;
  prepared.batch.size = static_cast<Index>(count);
  prepared.batch.examples = std::span(prepared.examples).first(count);
  prepared.batch.features = prepared.features.view().first(count * feature_size_);
  prepared.batch.kept = kept_;
  prepared.batch.movements = std::span(prepared.movements).first(count * movement_size_);
  prepared.batch.labels = std::span(prepared.labels).first(style_.labels ? count : 0);
  prepared.batch.other_labels = std::span(prepared.other_labels).first(std::min(count, prepared.other_labels.size()));
  prepared.batch.other_shares = View(prepared.other_shares).first(prepared.batch.other_labels.size());
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

namespace {

/// What passes over part of a split have in common.
class ResidentPass : public EvaluationSource {
 public:
  ResidentPass(Range part, Index batch_size, const RowBlock& rows, const FileRows& positions)
      : part_(part), batch_size_(batch_size), next_(part.first), rows_(rows), positions_(positions) {}
  std::int64_t first() const override { return part_.first; }
  std::int64_t last() const override { return part_.last; }

 protected:
  Range next_positions() const { return {next_, std::min<std::int64_t>(next_ + batch_size_, part_.last)}; }
  /// Goes on behind so many examples. \return what a batch of them says of itself
  Batch advance(Index size) {
    next_ += size;
    Batch batch;
    batch.size = batch.micro_batch_size = batch.global_size = batch.rank_step_size = size;
    batch.last_of_epoch = next_ == part_.last;
    return batch;
  }

  Range part_;
  Index batch_size_;
  std::int64_t next_;
  const RowBlock& rows_;
  const FileRows& positions_;
};

class ConvertingPass final : public ResidentPass {
 public:
  ConvertingPass(Range part, Index batch_size, const RowBlock& rows, const FileRows& positions,
                 std::shared_ptr<RowConversion> conversion)
      : ResidentPass(part, batch_size, rows, positions), conversion_(std::move(conversion)) {}

  std::optional<Batch> next() override {
    const Range now = next_positions();
    if (now.size() == 0) return {};
    std::vector<RawExample>& examples = conversion_->gathered.examples;
    examples.clear();
    for (const auto& run : positions_.runs(now)) {
      for (std::int64_t i = 0; i < run.rows; ++i) examples.push_back(rows_.example(run.first_row + i));
    }
    conversion_->writer.write(conversion_->gathered, advance(now.size()), conversion_->buffer);
    return conversion_->buffer.batch;
  }

 private:
  std::shared_ptr<RowConversion> conversion_;
};

class InPlacePass final : public ResidentPass {
 public:
  InPlacePass(Range part, Index batch_size, const RowBlock& rows, const FileRows& positions, const GroupSchema& group,
              const BatchStyle& style)
      : ResidentPass(part, batch_size, rows, positions), style_(style), feature_size_(group.features.size()) {}

  std::optional<Batch> next() override {
    const Range now = next_positions();
    if (now.size() == 0) return {};
    const FileRows::Run run = positions_.runs(now).front();
    Batch batch = advance(run.rows);
    const auto count = static_cast<std::size_t>(run.rows);
    const RawExample first = rows_.example(run.first_row);
    batch.features = {reinterpret_cast<const float*>(first.features), count * static_cast<std::size_t>(feature_size_)};
    if (style_.labels) batch.labels = {rows_.labels(run.first_row), count};
    if (style_.features_are_targets) {
      batch.targets = batch.features;
    } else if (style_.target_size > 0) {
      batch.targets = {first.targets, count * static_cast<std::size_t>(style_.target_size)};
    }
    batch.weights = weights(run);
    return batch;
  }

 private:
  View weights(const FileRows::Run& run) {
    const auto count = static_cast<std::size_t>(run.rows);
    if (style_.class_weights.empty()) {
      return style_.example_weights ? View{rows_.weights(run.first_row), count} : View{};
    }
    weights_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      const RawExample example = rows_.example(run.first_row + static_cast<std::int64_t>(i));
      weights_[i] = example.weight * style_.class_weights[static_cast<std::size_t>(example.label)];
    }
    return weights_;
  }

  BatchStyle style_;
  Index feature_size_;
  std::vector<float> weights_;
};

constexpr int kEvaluationBuffers = 3;

class ResidentReader final : public SequentialReader {
 public:
  ResidentReader(RowBlock rows, const FileRows& positions) : rows_(rows), positions_(positions) {}

  void read(Range positions, std::vector<RawExample>& examples) override {
    examples.clear();
    for (const auto& run : positions_.runs(positions)) {
      for (std::int64_t i = 0; i < run.rows; ++i) examples.push_back(rows_.example(run.first_row + i));
    }
  }

 private:
  RowBlock rows_;
  const FileRows& positions_;
};

/// Holds the blocks of the current batch; the last one is kept for the next batch.
class StreamingReader final : public SequentialReader {
 public:
  StreamingReader(const hdf5::File& file, const GroupSchema& group, const FileRows& positions)
      : file_(file), group_(group), positions_(positions), block_rows_(block_rows(group)) {}

  void read(Range positions, std::vector<RawExample>& examples) override {
    examples.clear();
    while (blocks_.size() > 1) blocks_.erase(blocks_.begin());
    for (const auto& run : positions_.runs(positions)) {
      for (std::int64_t row = run.first_row; row < run.first_row + run.rows; ++row) {
        examples.push_back(block_of(row).example(row));
      }
    }
  }

 private:
  const RowBlock& block_of(std::int64_t row) {
    if (blocks_.empty() || row >= blocks_.back().block.rows().last) {
      const std::int64_t first = row / block_rows_ * block_rows_;
      blocks_.emplace_back(file_, group_, Range{first, std::min(first + block_rows_, group_.examples)});
    }
    return blocks_.back().block;
  }

  const hdf5::File& file_;
  const GroupSchema& group_;
  const FileRows& positions_;
  std::int64_t block_rows_;
  std::vector<OwnedBlock> blocks_;
};

}  // namespace

std::unique_ptr<EvaluationSource> convert_rows(Range part, Index batch_size, const RowBlock& rows,
                                               const FileRows& positions, std::shared_ptr<RowConversion> conversion) {
  return std::make_unique<ConvertingPass>(part, batch_size, rows, positions, std::move(conversion));
}

std::unique_ptr<EvaluationSource> rows_in_place(Range part, Index batch_size, const RowBlock& rows,
                                                const FileRows& positions, const GroupSchema& group,
                                                const BatchStyle& style) {
  return std::make_unique<InPlacePass>(part, batch_size, rows, positions, group, style);
}

std::unique_ptr<SequentialReader> read_resident(RowBlock rows, const FileRows& positions) {
  return std::make_unique<ResidentReader>(rows, positions);
}

std::unique_ptr<SequentialReader> read_streaming(const hdf5::File& file, const GroupSchema& group,
                                                 const FileRows& positions) {
  return std::make_unique<StreamingReader>(file, group, positions);
}

SequentialSource::SequentialSource(Range part, Index batch_size, std::unique_ptr<SequentialReader> reader,
                                   const BatchWriter& writer, Allocator& memory, bool ahead)
    : part_(part), batch_size_(batch_size), next_(part.first), reader_(std::move(reader)), writer_(writer) {
  const Index largest = std::min<Index>(batch_size, part.size());
  if (!ahead) {
    prepared_ = writer_.make(largest, memory);
    return;
  }
  std::vector<PreparedBatch> buffers;
  for (int i = 0; i < kEvaluationBuffers; ++i) buffers.push_back(writer_.make(largest, memory));
  prefetcher_.emplace(std::move(buffers), [this](PreparedBatch& prepared) { return prepare(prepared); });
}

bool SequentialSource::prepare(PreparedBatch& prepared) {
  const Range positions{next_, std::min<std::int64_t>(next_ + batch_size_, part_.last)};
  if (positions.size() == 0) return false;
  reader_->read(positions, gathered_.examples);
  next_ = positions.last;
  Batch header;
  header.micro_batch_size = header.global_size = header.rank_step_size = positions.size();
  header.last_of_epoch = next_ == part_.last;
  writer_.write(gathered_, header, prepared);
  return true;
}

std::optional<Batch> SequentialSource::next() {
  if (!prefetcher_) return prepare(prepared_) ? std::optional(prepared_.batch) : std::nullopt;
  const Batch* batch = prefetcher_->next();
  if (batch == nullptr) return std::nullopt;
  return *batch;
}

}  // namespace unisono::data
