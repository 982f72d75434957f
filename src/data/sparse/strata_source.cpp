#include "sparse/strata_source.hpp"

namespace unisono::data {
namespace {

/// The blocks of some rows on diagonal `step`. \return their ratings
Index collect(const RatingGrid& grid, Range rows, Index step, std::vector<ExampleRange>& ranges) {
  Index examples = 0;
  ranges.clear();
  for (Index row = rows.first; row < rows.last; ++row) {
    ranges.push_back(grid.block(row, (row + step) % grid.side()));
    examples += ranges.back().size();
  }
  return examples;
}

}  // namespace

StrataSource::StrataSource(const LoadedSplit& split, const SourceOptions& options)
    : split_(split), rows_(part_of(split.grid->side(), options.rank, options.size)), first_example_{0} {
  const RatingGrid& grid = *split.grid;
  for (Index step = 0; step < grid.side(); ++step) {
    first_example_.push_back(first_example_.back());
    for (Index row = 0; row < grid.side(); ++row) {
      first_example_.back() += grid.block_size(row, (row + step) % grid.side());
    }
  }
}

Batch StrataSource::next() {
  const auto step = static_cast<std::size_t>(cursor_.step);
  Batch batch;
  batch.size = batch.rank_step_size = collect(*split_.grid, rows_, cursor_.step, ranges_);
  batch.global_size = batch.micro_batch_size = first_example_[step + 1] - first_example_[step];
  batch.epoch = cursor_.epoch;
  batch.epoch_examples_before = first_example_[step];
  batch.last_of_epoch = cursor_.step + 1 == steps_per_epoch();
  batch.set = &split_.set;
  batch.ranges = ranges_;
  cursor_ = batch.last_of_epoch ? DataCursor{.epoch = cursor_.epoch + 1, .step = 0}
                                : DataCursor{.epoch = cursor_.epoch, .step = cursor_.step + 1};
  return batch;
}

StrataEvaluation::StrataEvaluation(const LoadedSplit& split, int rank, int size)
    : split_(split), rows_(part_of(split.grid->side(), rank, size)) {}

std::optional<Batch> StrataEvaluation::next() {
  if (step_ == split_.grid->side()) return {};
  Batch batch;
  batch.size = collect(*split_.grid, rows_, step_++, ranges_);
  batch.set = &split_.set;
  batch.ranges = ranges_;
  return batch;
}

}  // namespace unisono::data
