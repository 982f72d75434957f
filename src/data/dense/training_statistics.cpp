#include "dense/training_statistics.hpp"

#include <algorithm>

#include "dense/convert.hpp"
#include "dense/statistics.hpp"

namespace unisono::data {
namespace {

std::vector<float> values_of(const GroupSchema& group, const RowBlock& block, std::int64_t row) {
  std::vector<float> values(static_cast<std::size_t>(group.features.size()));
  convert(group.storage, block.features(row), values.size(), group.scale, group.offset, values.data());
  return values;
}

std::vector<float> example_of(const StoredRows& rows, const GroupSchema& group, std::int64_t row) {
  if (const auto* block = std::get_if<const RowBlock*>(&rows)) return values_of(group, **block, row);
  OwnedRows one(group, {row, row + 1});
  one.block.read(*std::get<const hdf5::File*>(rows), group, one.block.rows());
  return values_of(group, one.block, row);
}

void add_rows(const RowBlock& block, Range rows, FeatureSums& sums) {
  for (std::int64_t row = rows.first; row < rows.last; ++row) sums.add(block.features(row));
}

/// Reads these rows from the file and adds them to the sums.
void add_from_file(const hdf5::File& file, const GroupSchema& group, Range rows, FeatureSums& sums) {
  const std::int64_t step = block_rows(group);
  for (std::int64_t first = rows.first; first < rows.last;) {
    const Range part{first, std::min((first / step + 1) * step, rows.last)};
    OwnedRows read(group, part);
    read.block.read(file, group, part);
    add_rows(read.block, part, sums);
    first = part.last;
  }
}

void add(const StoredRows& from, const GroupSchema& group, Range rows, FeatureSums& sums) {
  if (const auto* block = std::get_if<const RowBlock*>(&from)) {
    add_rows(**block, rows, sums);
  } else {
    add_from_file(*std::get<const hdf5::File*>(from), group, rows, sums);
  }
}

}  // namespace

Normalization training_statistics(NormalizationKind kind, const SetPlan& plan, StoredRows training,
                                  const NodeShare& share, Agreement& agreement) {
  const GroupSchema& group = *plan.group(Split::train);
  const RowRuns& rows = plan.rows(Split::train);
  const std::int64_t pieces = statistics_pieces(group, rows.size());
  const auto piece_size = static_cast<std::size_t>(2 * group.features.size());
  NodeMemory memory(share, static_cast<std::size_t>(pieces) * piece_size * sizeof(double));
  memory.take_own();
  auto* sums_of_pieces = reinterpret_cast<double*>(memory.data());

  std::vector<float> shift;
  agreement.all_do([&] {
    shift = example_of(training, group, rows.row(0));
    FeatureSums sums(group, shift);
    const Range mine = memory.part(pieces);
    for (std::int64_t piece = mine.first; piece < mine.last; ++piece) {
      sums.clear();
      for (const auto& run : rows.runs(part_of(rows.size(), piece, pieces))) {
        add(training, group, {run.first_row, run.first_row + run.rows}, sums);
      }
      std::copy(sums.sums().begin(), sums.sums().end(), sums_of_pieces + static_cast<std::size_t>(piece) * piece_size);
    }
  });
  memory.complete();
  return make_normalization(kind, group, rows.size(), shift,
                            {sums_of_pieces, static_cast<std::size_t>(pieces) * piece_size});
}

}  // namespace unisono::data
