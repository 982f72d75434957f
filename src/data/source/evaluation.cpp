#include "source/evaluation.hpp"

#include <algorithm>

namespace unisono::data {
namespace {

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
