#include "source/evaluation.hpp"

#include <algorithm>

namespace unisono::data {
namespace {

/// What passes over part of a split have in common.
class ResidentPass : public EvaluationSource {
 public:
  ResidentPass(Range part, Index batch_size, const RowBlock& rows, const RowRuns& positions)
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
  const RowRuns& positions_;
};

class ConvertedRows final : public ResidentPass {
 public:
  ConvertedRows(Range part, Index batch_size, const RowBlock& rows, const RowRuns& positions,
                std::shared_ptr<RowConversion> conversion)
      : ResidentPass(part, batch_size, rows, positions), conversion_(std::move(conversion)) {}

  std::optional<Batch> next() override {
    const Range now = next_positions();
    if (now.size() == 0) return {};
    std::vector<RawExample>& examples = conversion_->examples;
    examples.clear();
    for (const auto& run : positions_.runs(now)) {
      for (std::int64_t i = 0; i < run.rows; ++i) examples.push_back(rows_.example(run.first_row + i));
    }
    conversion_->writer.write(examples, advance(now.size()), conversion_->buffer);
    return conversion_->buffer.batch;
  }

 private:
  std::shared_ptr<RowConversion> conversion_;
};

class RowsInPlace final : public ResidentPass {
 public:
  RowsInPlace(Range part, Index batch_size, const RowBlock& rows, const RowRuns& positions, const GroupSchema& group,
              const BatchStyle& style)
      : ResidentPass(part, batch_size, rows, positions), style_(style), feature_size_(group.features.size()) {}

  std::optional<Batch> next() override {
    const Range now = next_positions();
    if (now.size() == 0) return {};
    const RowRuns::Run run = positions_.runs(now).front();
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
  View weights(const RowRuns::Run& run) {
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
  ResidentReader(RowBlock rows, const RowRuns& positions) : rows_(rows), positions_(positions) {}

  void read(Range positions, std::vector<RawExample>& examples) override {
    examples.clear();
    for (const auto& run : positions_.runs(positions)) {
      for (std::int64_t i = 0; i < run.rows; ++i) examples.push_back(rows_.example(run.first_row + i));
    }
  }

 private:
  RowBlock rows_;
  const RowRuns& positions_;
};

/// Holds the blocks of the current batch; the last one is kept for the next batch.
class StreamingReader final : public SequentialReader {
 public:
  StreamingReader(const hdf5::File& file, const GroupSchema& group, const RowRuns& positions)
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
      blocks_.emplace_back(group_, Range{first, std::min(first + block_rows_, group_.examples)});
      blocks_.back().block.read(file_, group_, blocks_.back().block.rows());
    }
    return blocks_.back().block;
  }

  const hdf5::File& file_;
  const GroupSchema& group_;
  const RowRuns& positions_;
  std::int64_t block_rows_;
  std::vector<OwnedRows> blocks_;
};

}  // namespace

std::unique_ptr<EvaluationSource> convert_rows(Range part, Index batch_size, const RowBlock& rows,
                                               const RowRuns& positions, std::shared_ptr<RowConversion> conversion) {
  return std::make_unique<ConvertedRows>(part, batch_size, rows, positions, std::move(conversion));
}

std::unique_ptr<EvaluationSource> rows_in_place(Range part, Index batch_size, const RowBlock& rows,
                                                const RowRuns& positions, const GroupSchema& group,
                                                const BatchStyle& style) {
  return std::make_unique<RowsInPlace>(part, batch_size, rows, positions, group, style);
}

std::unique_ptr<SequentialReader> read_resident(RowBlock rows, const RowRuns& positions) {
  return std::make_unique<ResidentReader>(rows, positions);
}

std::unique_ptr<SequentialReader> read_streaming(const hdf5::File& file, const GroupSchema& group,
                                                 const RowRuns& positions) {
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
  reader_->read(positions, examples_);
  next_ = positions.last;
  Batch header;
  header.micro_batch_size = header.global_size = header.rank_step_size = positions.size();
  header.last_of_epoch = next_ == part_.last;
  writer_.write(examples_, header, prepared);
  return true;
}

std::optional<Batch> SequentialSource::next() {
  if (!prefetcher_) return prepare(prepared_) ? std::optional(prepared_.batch) : std::nullopt;
  const Batch* batch = prefetcher_->next();
  if (batch == nullptr) return std::nullopt;
  return *batch;
}

}  // namespace unisono::data
