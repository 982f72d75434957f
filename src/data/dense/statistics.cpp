#include "dense/statistics.hpp"

#include <algorithm>
#include <cmath>

#include "dense/feature_writer.hpp"

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

constexpr std::int64_t kMostPieces = 64;
constexpr std::int64_t kMostBytes = 16 << 20;  // of all pieces' sums

/// Count, mean and Σ (x − mean)² of a set of numbers, and their combination for the union of two sets. Chan, Golub &
/// LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
struct Moments {
  double count = 0, mean = 0, squares = 0;

  void unite(const Moments& other) {
    const double together = count + other.count, apart = other.mean - mean;
    mean += apart * other.count / together;
    squares += other.squares + apart * apart * count * other.count / together;
    count = together;
  }
};

/// The index of a feature's mean and factor in a normalisation.
std::size_t part_of_feature(NormalizationKind kind, const FeatureShape& shape, std::size_t feature) {
  if (kind == NormalizationKind::feature) return feature;
  if (kind == NormalizationKind::channel) return feature / static_cast<std::size_t>(shape.height * shape.width);
  return 0;
}

std::size_t parts(NormalizationKind kind, const FeatureShape& shape) {
  if (kind == NormalizationKind::feature) return static_cast<std::size_t>(shape.size());
  return kind == NormalizationKind::channel ? static_cast<std::size_t>(shape.channels) : 1;
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

FeatureSums::FeatureSums(const GroupSchema& group, std::vector<float> shift)
    : storage_(group.storage),
      scale_(group.scale),
      offset_(group.offset),
      shift_(std::move(shift)),
      values_(shift_.size()),
      sums_(2 * shift_.size()) {}

void FeatureSums::add(const std::byte* stored) {
  const std::size_t count = shift_.size();
  convert(storage_, stored, count, scale_, offset_, values_.data());
  for (std::size_t i = 0; i < count; ++i) {
    const double x = double{values_[i]} - double{shift_[i]};
    sums_[i] += x;
    sums_[count + i] += x * x;
  }
}

void FeatureSums::clear() { std::fill(sums_.begin(), sums_.end(), 0.0); }

std::int64_t statistics_pieces(const GroupSchema& group, std::int64_t examples) {
  const auto bytes = static_cast<std::int64_t>(2 * sizeof(double)) * group.features.size();
  return std::clamp<std::int64_t>(kMostBytes / bytes, 1, std::min(kMostPieces, examples));
}

Normalization make_normalization(NormalizationKind kind, const GroupSchema& group, std::int64_t examples,
                                 const std::vector<float>& shift, std::span<const double> pieces) {
  const std::size_t features = shift.size();
  std::vector<double> total(2 * features, 0.0);
  for (std::size_t i = 0; i < pieces.size(); ++i) total[i % total.size()] += pieces[i];

  std::vector<Moments> moments(parts(kind, group.features));
  const auto count = static_cast<double>(examples);
  for (std::size_t i = 0; i < features; ++i) {
    const double mean = total[i] / count;
    const double squares = std::max(0.0, total[features + i] - total[i] * mean);
    moments[part_of_feature(kind, group.features, i)].unite({count, double{shift[i]} + mean, squares});
  }
  Normalization normalization;
  for (const Moments& one : moments) {
    const double deviation = std::sqrt(one.squares / one.count);
    normalization.mean.push_back(static_cast<float>(one.mean));
    normalization.scale.push_back(deviation > 0 ? static_cast<float>(1 / deviation) : 1.0F);
  }
  return normalization;
}

}  // namespace unisono::data
