#pragma once

#include <functional>
#include <initializer_list>
#include <span>
#include <vector>

#include "unisono/kernels/update_kernels.hpp"
#include "unisono/optim/optimizer.hpp"
#include "unisono/tensor/holding.hpp"
#include "unisono/tensor/layout.hpp"
#include "unisono/tensor/reducer.hpp"

namespace unisono::optim {

/// The rules by which θ is divided into ranges.
struct RangeRules {
  bool decay = false;  ///< there is weight decay at all
  bool decay_biases_and_norms = false;
  bool adapt_weights = false;  ///< each block of weights is a range of its own, with a rate of its own (LARS, LAMB)
};

/// As few ranges as the rules allow: one for the whole vector where all blocks are alike. The padding after a block
/// belongs to its range. Frozen blocks are left out.
std::vector<kernels::UpdateRange> make_ranges(const ParameterLayout& layout, const RangeRules& rules);

/// A layout of the rank's vector that has a block for each of the holding's ranges, and so the ranges of equal decay
/// and rate (make_ranges) of θ itself.
ParameterLayout layout_of(const Holding& holding);

/// Sums of squares over vectors of which several ranks hold a copy together; each number is counted once.
/// Each call is collective: one message; rarely a second one, where doubles do not settle how an exact sum is rounded
/// (see ExactSquares).
class DividedSums {
 public:
  /// \param holding must outlive the object; its squares() are not null
  explicit DividedSums(const Holding& holding);

  /// Adds the squares of a range of this rank's vector to a sum, exactly or in doubles.
  using Add = std::function<void(const kernels::UpdateRange& range, bool exactly, ExactSquares& sum)>;

  /// Over all of θ.
  double whole(const Add& add);

  struct Vector {
    Add add;
    std::span<double> norms;
  };
  /// vector.norms[i] ← the sum over the whole block that ranges[i] is a part of, for several vectors; 0 for ranges that
  /// are not adapted.
  void of_blocks(std::span<const kernels::UpdateRange> ranges, std::initializer_list<Vector> vectors);

 private:
  /// A contribution of this rank to one of several sums.
  struct Term {
    const Add* add;
    kernels::UpdateRange range;
    std::size_t sum;  ///< its number
  };
  std::vector<double> totals(std::size_t count, const std::vector<Term>& terms);

  std::vector<BlockRange> own_;  ///< of this rank's vector
  std::size_t blocks_;           ///< of all of θ
  SquaresReducer& ranks_;
};

}  // namespace unisono::optim
