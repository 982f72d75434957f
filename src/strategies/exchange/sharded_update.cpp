// Optimizer state in shards (ZeRO, stage 1): each rank keeps the state s of 1/P of θ, and makes that part of a step.
//     g ← Σ_r g_r                        on each rank in its slices alone: a reduce-scatter of each bucket
//     θ_r, s_r ← step(θ_r, g_r, s_r)     the rank's slices, one behind the other
//     θ ← all ranks' slices              an all-gather of each bucket
//   Each number is summed in the order of the allreduce, and norms (clipping, LARS, LAMB) are exact sums, so that the
//   bits are those of ranks that keep the whole state. A slice of each bucket, and not of θ, is a rank's, so that all
//   ranks send and add at the same time. The gather follows the update at once: models read θ in any order, so that
//   the next forward pass cannot begin with a part of it.
//   The other ranks' slices of θ and g are not read until they are gathered or computed anew: the rank's slices are
//   moved to the fronts of both vectors for the update, which then needs no memory.
//   Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter models", SC 2020.
// Cost per step: 2 · 4N (P − 1)/P bytes in 2 messages to each rank and bucket, as an allreduce; norms add one message.
// N/P flops and updates; 28N/P bytes of memory traffic for the moves. Memory: 4kN/P bytes for k state vectors, instead
// of 4kN.
#include "exchange/sharded_update.hpp"

#include <algorithm>

#include "exchange/compressed_blocks.hpp"
#include "exchange/exchange.hpp"
#include "unisono/strategies/phase.hpp"

namespace unisono::strategies {
namespace {

/// The reverse of packing the ranges at the front of their vector, from the last range to the first.
void move_back(MutableView vector, const std::vector<FloatRange>& ranges, Index size) {
  auto end = vector.begin() + size;
  for (auto range = ranges.rbegin(); range != ranges.rend(); ++range) {
    const auto begin = end - (range->last - range->first);
    std::copy_backward(begin, end, vector.begin() + range->last);
    end = begin;
  }
}

}  // namespace

ShardedUpdate::ShardedUpdate(TrainContext& run)
    : run_(run),
      shards_(std::ssize(run.gradient), bucket_bytes_of(run), run.communicator.size()),
      own_(shards_.ranges_of(run.communicator.rank())),
      size_(shards_.size_of(run.communicator.rank())) {}

void ShardedUpdate::clear() { std::ranges::fill(part(run_.gradient, {0, size_}), 0.0F); }

void ShardedUpdate::step(double learning_rate) {
  const MutableView theta = run_.state.parameters;
  {
    const Phase phase(run_, run_.seconds.optimizer);
    pack(run_.gradient, own_, run_.gradient);  // a number moves towards the start, or stays
    pack(theta, own_, theta);
    const FloatRange front{0, size_};
    run_.optimizer->step(part(theta, front), part(View(run_.gradient), front), learning_rate);
    move_back(theta, own_, size_);
  }
  const Phase phase(run_, run_.seconds.exposed_communication);
  std::vector<comm::RequestPtr> requests;
  for (const FloatRange& bucket : shards_.buckets()) {
    requests.push_back(run_.communicator.start_all_gather(part(theta, bucket)));
  }
  for (const comm::RequestPtr& request : requests) request->wait();
}

}  // namespace unisono::strategies
