#pragma once

#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "dense/plan.hpp"
#include "dense/rows.hpp"
#include "order/schedule.hpp"
#include "set/agreement.hpp"

namespace unisono::data {

/// Where a group's features are: in a file, or all of them in memory.
using StoredRows = std::variant<const hdf5::File*, const RowBlock*>;

/// Computes the normalisation from a set's training examples; the ranks of a node divide the work. Collective.
/// \param training the rows of the group that has the training examples
Normalization training_statistics(NormalizationKind kind, const SetPlan& plan, StoredRows training,
                                  const NodeShare& share, Agreement& agreement);

/// Sums over the features of some rows, in double, for means and variances. Values are shifted by those of one example
/// first, so that a large mean does not cancel a small deviation.
class FeatureSums {
 public:
  /// \param shift [features]; the same for all sums that will be added up
  FeatureSums(const GroupSchema& group, std::vector<float> shift);

  void add(const std::byte* stored);
  /// [2 · features]: Σ (x − shift), then Σ (x − shift)²
  std::span<const double> sums() const { return sums_; }
  void clear();

 private:
  Storage storage_;
  float scale_, offset_;
  std::vector<float> shift_, values_;
  std::vector<double> sums_;
};

/// Into how many pieces the training set is divided for the statistics. The pieces' sums are always added in the same
/// order, so the result does not depend on the number of ranks.
std::int64_t statistics_pieces(const GroupSchema& group, std::int64_t examples);

/// Mean and 1/deviation from the sums of all pieces: over all values ("global"), per channel or per feature. A constant
/// gets the factor 1.
/// \param pieces FeatureSums::sums() of all pieces, [pieces · 2 · features]
Normalization make_normalization(NormalizationKind kind, const GroupSchema& group, std::int64_t examples,
                                 const std::vector<float>& shift, std::span<const double> pieces);

}  // namespace unisono::data
