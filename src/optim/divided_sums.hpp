#pragma once

#include <functional>
#include <initializer_list>
#include <span>
#include <vector>

#include "unisono/kernels/update_kernels.hpp"
#include "unisono/kernels/vector_kernels.hpp"
#include "unisono/optim/optimizer.hpp"
#include "unisono/tensor/holding.hpp"
#include "unisono/tensor/layout.hpp"
#include "unisono/tensor/reducer.hpp"
#include "unisono/tensor/shard_map.hpp"

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

/// Whether some rank holds less than all of θ.
bool is_divided(const ShardMap& map);

/// The layout of some ranges of θ, one behind the other: a block for each part of θ's blocks in them, padding included.
/// It has the ranges of equal decay and rate (make_ranges) of θ itself.
ParameterLayout layout_of_ranges(const SharedParameters& parameters);

/// Sums of squares over vectors that are sharded as θ; each number is counted once, however many copies of θ there are.
/// Each call is collective: one message; rarely a second one, where doubles do not settle how an exact sum is rounded
/// (see ExactSquares).
class DividedSums {
 public:
  /// \param holding must outlive the object; its squares() are not null
  explicit DividedSums(const Holding& holding);
  explicit DividedSums(const DividedParameters& parameters);
  explicit DividedSums(const SharedParameters& parameters);

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

  /// A shard of this rank.
  struct Place {
    kernels::UpdateRange range;  ///< in this rank's vector, up to the next shard
    std::size_t block = 0;
    bool counts = false;  ///< belongs to copy 0 of θ, the one that is summed
  };
  std::vector<Place> places_;
  std::size_t blocks_;  ///< of all of θ
  SquaresReducer& ranks_;
};

}  // namespace unisono::optim
