#include "dense/training_statistics.hpp"

#include <algorithm>

#include "dense/convert.hpp"
#include "dense/statistics.hpp"

namespace unisono::data {
namespace {

std::vector<float> first_example(const hdf5::File& file, const GroupSchema& group, std::int64_t row) {
  OwnedRows one(group, {row, row + 1});
  one.block.read(file, group, one.block.rows());
  std::vector<float> values(static_cast<std::size_t>(group.features.size()));
  convert(group.storage, one.block.features(row), values.size(), group.scale, group.offset, values.data());
  return values;
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

}  // namespace

Normalization training_statistics(NormalizationKind kind, const hdf5::File& file, const SetPlan& plan,
                                  const SharedRows* resident, const NodeShare& share, Agreement& agreement) {
  const GroupSchema& group = *plan.group(Split::train);
  const RowRuns& rows = plan.rows(Split::train);
  const std::int64_t pieces = statistics_pieces(group, rows.size());
  const auto piece_size = static_cast<std::size_t>(2 * group.features.size());
  NodeMemory memory(share, static_cast<std::size_t>(pieces) * piece_size * sizeof(double));
  memory.take_own();
  auto* sums_of_pieces = reinterpret_cast<double*>(memory.data());

  std::vector<float> shift;
  agreement.all_do([&] {
    shift = first_example(file, group, rows.row(0));
    FeatureSums sums(group, shift);
    const Range mine = memory.part(pieces);
    for (std::int64_t piece = mine.first; piece < mine.last; ++piece) {
      sums.clear();
      for (const auto& run : rows.runs(part_of(rows.size(), piece, pieces))) {
        const Range part{run.first_row, run.first_row + run.rows};
        resident != nullptr ? add_rows(resident->block(group), part, sums) : add_from_file(file, group, part, sums);
      }
      std::copy(sums.sums().begin(), sums.sums().end(), sums_of_pieces + static_cast<std::size_t>(piece) * piece_size);
    }
  });
  memory.complete();
  return make_normalization(kind, group, rows.size(), shift,
                            {sums_of_pieces, static_cast<std::size_t>(pieces) * piece_size});
}

}  // namespace unisono::data
