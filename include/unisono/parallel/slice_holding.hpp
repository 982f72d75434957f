#pragma once

#include <memory>
#include <vector>

#include "unisono/tensor/holding.hpp"

namespace unisono::parallel {

/// Of what ranks hold alike, each of them has some ranges of floats of its own, for example the slices whose optimizer
/// state it keeps (see StateShards), or the part that a parameter server serves. No number is in the ranges of two
/// ranks.
class SliceHolding final : public Holding {
 public:
  /// Where the slices lie in the rank's vector.
  enum class Place {
    packed,   ///< one behind the other, and nothing else
    in_place  ///< in a vector that is laid out as that of `from`, in which nothing else counts
  };

  /// \param from what this rank holds of the vector together with the others
  /// \param slices floats of this rank's vector in `from`: ascending, disjoint, whole cache lines
  /// \param squares adds up over all ranks that have slices; must outlive the object; null: see Holding::squares
  SliceHolding(std::shared_ptr<const Holding> from, std::vector<FloatRange> slices, Place place,
               SquaresReducer* squares);

  const ParameterLayout& layout() const override { return from_->layout(); }
  Index size() const override;
  std::vector<Shard> shards() const override;
  std::vector<BlockRange> ranges() const override;
  bool held_by_all() const override { return false; }
  SquaresReducer* squares() const override { return squares_; }
  /// Of what all hold; the slices of a rank follow from its number.
  std::uint64_t hash() const override { return from_->hash(); }

 private:
  /// Calls see(slice, where it begins in this rank's vector).
  template <typename See>
  void for_each_slice(See see) const;

  std::shared_ptr<const Holding> from_;
  std::vector<FloatRange> slices_;
  Place place_;
  SquaresReducer* squares_;
};

}  // namespace unisono::parallel
