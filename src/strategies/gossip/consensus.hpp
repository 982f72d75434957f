#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "step.hpp"
#include "unisono/base/counters.hpp"
#include "unisono/strategies/strategy.hpp"

// The consensus of strategies without a centre: each rank trains its own θ_r and running statistics, which it keeps in
// TrainContext::vectors; their uniform mean over the ranks, in TrainContext::state, is the model that others see.
namespace unisono::strategies {

/// Places in TrainContext::vectors: this rank's θ_r, and its running statistics.
inline constexpr std::size_t kReplica = 0, kReplicaStatistics = 1;

/// A context with this rank's own θ and statistics in place of the consensus; at the beginning of a run, they are the
/// initial ones.
TrainContext own_context(TrainContext& run);

/// What was averaged for the consensus, and how far the ranks were from it when it was last formed.
struct ConsensusCounters {
  AveragedCounters averaged = {};
  double difference_squares = 0, mean_squares = 0;  ///< ‖θ_r − mean‖² and ‖mean‖² of what this rank holds

  /// Declares the bytes, the squares, which the ranks add up, and the distance in metrics.
  void describe(CounterVisitor& visitor);
  /// Declares the distance in the group of the summary in which it is called.
  void describe_in_summary(CounterVisitor& visitor) const;
  /// √(Σ_r ‖θ_r − θ‖² / P) / ‖θ‖, from the sums over all ranks; 0 where θ is 0.
  double distance() const;
};

/// run.state ← (1/P) Σ_r own_r, where θ is trained. Collective.
/// \param statistics_weight of this rank's running statistics in their mean
void form_consensus(TrainContext& run, models::ModelState own, ConsensusCounters& counters,
                    double statistics_weight = 1);

/// The summary's lines of ranks that exchange parameters with neighbours. \param exchanges what they were like
std::string gossip_text(const CounterTerms& terms, std::int64_t sent_bytes, const ConsensusCounters& consensus,
                        const std::string& exchanges);

/// Strategy::need_of_examples where ranks have running statistics of their own.
std::string need_of_examples_for_statistics(const models::Model& model);

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
/// consensus.cpp has the formulas.
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
