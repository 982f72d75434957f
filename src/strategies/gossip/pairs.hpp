#pragma once

#include <cstdint>
#include <vector>

namespace unisono::strategies {

/// Which even ranks exchange with which odd ones.
enum class PairTopology {
  complete,  ///< each with all
  ring  ///< with the ranks before and after it; on an odd number of ranks it is open between the last and the first
};

/// The pairs of ranks that average their parameters. Even ranks begin exchanges, and odd ones answer.
class Pairs {
 public:
  Pairs(PairTopology topology, int ranks) : topology_(topology), ranks_(ranks) {}

  static bool begins(int rank) { return rank % 2 == 0; }
  /// Those with whom a rank may exchange, ascending; empty where there is one rank.
  std::vector<int> partners_of(int rank) const;
  /// With whom an even rank exchanges in its own step: each partner with equal probability, independently of all other
  /// draws. There must be two ranks or more.
  int partner(std::uint64_t seed, int rank, std::int64_t step) const;

 private:
  PairTopology topology_;
  int ranks_;
};

}  // namespace unisono::strategies
