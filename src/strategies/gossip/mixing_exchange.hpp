#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "gossip/mixing.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

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
