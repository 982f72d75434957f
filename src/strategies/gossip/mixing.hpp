#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

/// Who exchanges with whom.
enum class Topology {
  ring,         ///< rank r with r − 1 and r + 1
  grid,         ///< with the four neighbours in a grid whose borders meet (a torus)
  exponential,  ///< in the k-th exchange rank r sends to r + 2^k and receives from r − 2^k
  complete      ///< with all
};

/// A rank's part of one exchange: θ_r ← θ_r + weight · Σ_s (θ_s − θ_r) over the ranks s of `from`.
struct MixingRow {
  std::vector<int> from;  ///< whose θ it receives, in the order of the sum
  std::vector<int> to;    ///< who receives its θ
  double weight = 0;      ///< W_rs, the same for all of them
};

/// The mixing matrices W of a topology on P ranks: θ_r ← Σ_s W_rs θ_s. Every W is doubly stochastic (its rows and
/// columns sum to 1), so that an exchange keeps the uniform mean over the ranks, and brings the ranks closer to it.
/// mixing.cpp has the formulas.
class Mixing {
 public:
  /// \pre ranks ≥ 1
  Mixing(Topology topology, int ranks);

  /// How many different matrices there are; exchange k uses number k mod rounds().
  int rounds() const { return static_cast<int>(rounds_.size()); }
  MixingRow row(int round, int rank) const;
  /// σ₂, the second largest singular value of the product of all rounds' matrices: after rounds() exchanges, the
  /// distance √(Σ_r ‖θ_r − mean‖²) is at most σ₂ times what it was. 0: the ranks then hold their mean.
  double second_singular_value() const;

 private:
  /// To the rank so many rows and columns on, in a grid whose borders meet.
  struct Shift {
    int rows = 0, columns = 0;
    bool operator==(const Shift&) const = default;
  };
  using Round = std::vector<Shift>;

  int ranks() const { return rows_ * columns_; }
  int moved(int rank, const Shift& shift, int sign) const;
  void add(Round& round, int rows, int columns) const;

  int rows_ = 1, columns_ = 1;
  std::vector<Round> rounds_;
};

/// A vector of θ's size that is mixed: into ← Σ_s W_rs from_s, on the trainable segments. `into` may be `from`.
struct MixedVector {
  MutableView from, into;  ///< in the backend's memory
};

/// Mixes the ranks' vectors by the rows of a matrix.
class MixingExchange {
 public:
  virtual ~MixingExchange() = default;
  /// Begins; called by all ranks with equally many vectors. Until `finish`, `from` may be read and not written, and
  /// `into` neither. \throws CommunicationError, as `finish` does
  virtual void start(int round, std::span<const MixedVector> vectors) = 0;
  /// Blocks until `into` holds the mixed values.
  virtual void finish() = 0;
  /// By this rank, since this object was made.
  virtual std::int64_t sent_bytes() const = 0;
};

/// By messages between neighbours. \param run, mixing must outlive the result
std::unique_ptr<MixingExchange> make_neighbour_exchange(TrainContext& run, const Mixing& mixing);
/// The uniform mean of all ranks, as allreduces. Vectors that are mixed in place get the bits of `averaging`.
std::unique_ptr<MixingExchange> make_complete_exchange(TrainContext& run);

/// Bytes of buffers that the first of these takes on each rank for a θ of so many floats.
std::int64_t neighbour_exchange_bytes(const Mixing& mixing, Index floats);

}  // namespace unisono::strategies
