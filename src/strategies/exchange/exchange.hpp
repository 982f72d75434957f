#pragma once

#include <memory>

#include "unisono/comm/communicator.hpp"

namespace unisono::strategies {

/// What happens to the gradient between the backward pass and the optimizer step, e.g. a sum over the ranks.
class GradientExchange {
 public:
  virtual ~GradientExchange() = default;
  /// Called when g[first, last) is final on this rank. Ranges come from the end of g to its start, in the same order on
  /// every rank.
  virtual void ready(Index first, Index last) = 0;
  /// Called when all of g is final on this rank, whether or not `ready` said so. On return g is the exchanged gradient,
  /// for the optimizer, and the exchange is ready for the next step. Collective.
  virtual void finish() = 0;

  /// Seconds that `ready` and `finish` have blocked this rank so far, in two parts that do not overlap.
  struct HeldUp {
    double communication = 0;  ///< while all ranks were present
    double stragglers = 0;     ///< waiting for ranks that had not arrived yet
  };
  virtual HeldUp held_up() const = 0;
};

/// g ← Σ_r g_r, in buckets: the allreduce of each begins as soon as it is final. Li et al., "PyTorch distributed", VLDB
/// 2020.
/// Cost per step: allreduces of 4N bytes together, N flops.
/// \param gradient the same length on all ranks; overwritten with the sum
/// \param bucket_bytes 0: chosen automatically
/// \param clock measures the HeldUp seconds
std::unique_ptr<GradientExchange> make_bucketed_sum(comm::Communicator& communicator, MutableView gradient,
                                                    Index bucket_bytes = 0, const Clock& clock = steady_clock());

}  // namespace unisono::strategies
