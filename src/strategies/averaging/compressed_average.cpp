// Averages whose ranks send compressed differences to what all of them held before, with error feedback.
//     e_r ← n_r/n (θ₀ − θ_r) + residual_r         n_r: examples of rank r since the last average; n: of all ranks
//     message_r, residual_r ← encode(e_r)
//     Δ ← Σ_r decode(message_r);  θ ← θ₀ − Δ      then comes the outer step along Δ (outer_step.cpp)
//   The residuals of an average are a part of the next one, so that no progress is lost. Biases, the parameters of
//   norms and chosen blocks are averaged as they are. On one rank nothing is compressed; what a run of more ranks has
//   left is added to Δ.
// Cost per average: as exchange/compressed_sum.cpp has it for a gradient. Memory: the residual, 4N bytes.
#include "averaging/compressed_average.hpp"

#include "parameter_average.hpp"
#include "unisono/parallel/phase.hpp"

namespace unisono::strategies {

CompressedAverage::CompressedAverage(TrainContext& run, const parallel::CompressionSettings& settings,
                                     MutableView residual, View start)
    : run_(run),
      blocks_(parallel::divide_blocks(run.replica.layout(),
                                      parallel::blocks_to_compress(run.replica.layout(), settings.exact))),
      changes_(run, settings),
      residual_(residual),
      start_(start) {}

void CompressedAverage::average(double weight, std::int64_t step) {
  const parallel::Phase phase(run_, run_.seconds.exposed_communication);
  if (run_.communicator.size() == 1) return take_residual();
  double all = weight;
  run_.communicator.allreduce_sum(std::span(&all, 1));
  const auto share = static_cast<float>(weight / all);
  changes_.begin_step(step);
  for (const FloatRange& range : blocks_.compressed) {
    const MutableView theta = part(run_.state.parameters, range);
    run_.backend.axpby(share, part(start_, range), -share, theta);
    changes_.sum(theta, part(residual_, range));
    run_.backend.axpby(1, part(start_, range), -1, theta);
  }
  count_averaged(run_, average_parameters(run_, run_.communicator, weight, blocks_.exact));
}

/// θ₀ − (θ₀ − θ + residual)
void CompressedAverage::take_residual() {
  run_.backend.axpby(-1, residual_, 1, run_.state.parameters);
  run_.backend.clear(residual_);
}

}  // namespace unisono::strategies
