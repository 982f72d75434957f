#pragma once

#include <memory>

#include "unisono/comm/communicator.hpp"

namespace unisono::strategies {

/// What happens to a gradient between the backward pass and the step.
class GradientExchange {
 public:
  virtual ~GradientExchange() = default;
  /// g[first, last) is final on this rank. Ranges come from the end of g to its start, in the same order on every rank.
  virtual void ready(Index first, Index last) = 0;
  /// All of g is final on this rank, whether `ready` said so or not; afterwards it is what the optimizer steps by, and
  /// the exchange begins anew. Collective.
  virtual void finish() = 0;

  /// Seconds that both have held this rank up so far, in two parts that do not overlap.
  struct HeldUp {
    double communication = 0;  ///< all ranks being there
    double stragglers = 0;     ///< for ranks that were not there yet
  };
  virtual HeldUp held_up() const = 0;
};

/// g ← Σ_r g_r, in buckets, each as soon as it is final. Li et al., "PyTorch distributed", VLDB 2020.
/// Cost a step: allreduces of 4N bytes together, N flops.
/// \param gradient the same length on all ranks; it is written to \param bucket_bytes 0: chosen
/// \param clock that tells how long the ranks were held up
std::unique_ptr<GradientExchange> make_bucketed_sum(comm::Communicator& communicator, MutableView gradient,
                                                    Index bucket_bytes = 0, const Clock& clock = steady_clock());

}  // namespace unisono::strategies
