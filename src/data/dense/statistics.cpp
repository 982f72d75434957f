#include "dense/statistics.hpp"

#include <algorithm>
#include <cmath>

#include "dense/convert.hpp"

namespace unisono::data {
namespace {

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
