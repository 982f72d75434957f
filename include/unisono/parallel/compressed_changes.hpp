#pragma once

#include <cstdint>
#include <memory>

#include "unisono/parallel/compression_settings.hpp"
#include "unisono/parallel/encoded_sum.hpp"
#include "unisono/parallel/step_terms.hpp"

namespace unisono::parallel {

/// Sums what the ranks have changed, compressed, with error feedback:
///     e_r ← changes_r + rest_r;  message_r, rest_r ← encode(e_r);  sum ← Σ_r decode(message_r)
/// So Σ over sums + Σ_r rest_r = Σ of all changes, up to rounding. Cost per sum of n floats: as an EncodedSum's.
class CompressedChanges {
 public:
  /// \param settings is_on()
  CompressedChanges(StepTerms& run, const CompressionSettings& settings);

  /// The sums that follow belong to this step of the run.
  void begin_step(std::int64_t step);
  /// changes ← the sum over the ranks, with the same bits on all; rest ← what this rank has not sent. Collective.
  /// \param rest in: what it had not sent before; as long as `changes`, and as long on all ranks
  void sum(MutableView changes, MutableView rest);

 private:
  StepTerms& run_;
  std::unique_ptr<kernels::Encoder> encoder_;
  std::unique_ptr<EncodedSum> sum_;
  std::uint64_t place_ = 0;  ///< of the next sum: its step and its number in the step
};

}  // namespace unisono::parallel
