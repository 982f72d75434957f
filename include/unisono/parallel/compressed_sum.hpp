#pragma once

#include <memory>
#include <vector>

#include "unisono/parallel/compression_settings.hpp"
#include "unisono/parallel/exchange.hpp"
#include "unisono/parallel/step_terms.hpp"

namespace unisono::parallel {

/// The vectors that compressed sums keep from step to step, in the order in which the exchanges expect them.
std::vector<StateVector> compression_vectors(const CompressionSettings& settings);

/// g ← Σ_r of what rank r's messages say about its gradient; see compressed_sum.cpp. Uses run.vectors.
std::unique_ptr<GradientExchange> make_compressed_sum(StepTerms& run, const CompressionSettings& settings);

/// The same for kind power_sgd; see power_sgd.cpp.
std::unique_ptr<GradientExchange> make_power_sgd(StepTerms& run, const CompressionSettings& settings);

/// What both have in common: a rank's own gradient is clipped before it is compressed.
///     g_r ← g_r · min(1, clip_norm / (√P ‖g_r‖))       Lin et al., ICLR 2018
void clip_own_gradient(StepTerms& run, double clip_norm);

/// Estimated bytes of memory of an exchange, without the vectors that it keeps.
std::int64_t compression_bytes(const ParameterLayout& layout, int ranks, const CompressionSettings& settings);

/// Bytes that a rank sends in an allreduce of n floats, each rank on a node of its own: slices are added up by one rank
/// each, short vectors by all.
std::int64_t plain_sum_bytes(Index n, int ranks);

}  // namespace unisono::parallel
