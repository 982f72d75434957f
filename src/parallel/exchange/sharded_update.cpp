// Optimizer state in shards (ZeRO, stage 1): each rank keeps the state s of 1/P of θ, and makes that part of a step.
//     g ← Σ_r g_r                        on each rank in its slices alone: a reduce-scatter of each bucket
//     θ_r, s_r ← step(θ_r, g_r, s_r)     the rank's slices
//     θ ← all ranks' slices              an all-gather of each bucket, which begins when the rank's slice is done
//   Each number is summed in the order of the allreduce, and norms (clipping, LARS, LAMB) are exact sums, so that the
//   bits are those of ranks that keep the whole state. A slice of each bucket, and not of θ, is a rank's, so that all
//   ranks send and add at the same time. The gather follows the update at once: models read θ in any order, so that
//   the next forward pass cannot begin with a part of it.
//   On one node the ranks share one copy of θ, and nothing is gathered. Where a step may be made in parts, sum and
//   update are then one pass: each block of the rank's slice is summed straight out of all ranks' g, and updated while
//   it is in the core's cache. It begins when all ranks have finished their backward pass, which reads θ.
//   Norms need the whole sum before the first number moves. An optimizer takes its shard as one vector: several slices
//   are moved to the fronts of g and θ for its step, and back.
//   Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter models", SC 2020.
// Cost per step: 2 · 4N (P − 1)/P bytes in 2 messages to each rank and bucket, as an allreduce; norms add one message.
// N/P flops and updates. With one copy of θ: 4N (P − 1)/P bytes are read from other ranks' g, and no other message is
// sent. Memory: 4kN/P bytes for k state vectors, instead of 4kN.
#include "unisono/parallel/sharded_update.hpp"

#include <algorithm>

#include "unisono/parallel/compressed_sum.hpp"

namespace unisono::parallel {
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

ShardedUpdate::ShardedUpdate(StepTerms& run) : run_(run), own_(run.state_shards->ranges_of(run.communicator.rank())) {
  for (const FloatRange& bucket : run.state_shards->buckets()) {
    const FloatRange slice = run.state_shards->slice_of(bucket, run.communicator.rank());
    pieces_.push_back({bucket, slice, size_});
    size_ += slice.last - slice.first;
  }
}

std::unique_ptr<GradientExchange> ShardedUpdate::make_sum() {
  if (run_.one_theta && run_.optimizer->steps_in_parts()) return nullptr;
  return make_scattered_sum(run_.communicator, run_.gradient, run_.state_shards->bucket_bytes(), run_.runtime);
}

void ShardedUpdate::clear() {
  if (!run_.optimizer->steps_in_parts() && own_.size() > 1) std::ranges::fill(part(run_.gradient, {0, size_}), 0.0F);
}

void ShardedUpdate::step(double learning_rate) {
  if (!run_.optimizer->steps_in_parts()) {
    step_shard(learning_rate);
  } else if (run_.one_theta) {
    step_summed_blocks(learning_rate);
  } else {
    step_slices(learning_rate);
  }
}

/// \param begin of the range in this rank's shard
void ShardedUpdate::step_part(const FloatRange& range, Index begin) {
  run_.optimizer->step_part(begin, part(run_.state.parameters, range), part(View(run_.gradient), range));
}

/// One pass over all ranks' g, the one θ and the rank's state.
void ShardedUpdate::step_summed_blocks(double learning_rate) {
  const Piece& all = pieces_.front();  // one θ is one bucket
  const double updated_before = run_.seconds.optimizer;
  const Stopwatch watch(run_.runtime);
  double arrived = -1;  // seconds until all ranks had brought their g
  const comm::Communicator::Summed update = [&](Index first, Index last) {
    if (arrived < 0) arrived = watch.seconds();
    const ScopedTimer timer(run_.seconds.optimizer, run_.runtime);
    step_part({first, last}, first - all.slice.first);
  };
  run_.optimizer->begin_step(learning_rate);
  run_.communicator.reduce_scatter_in_blocks(run_.gradient, update);
  const double seconds = watch.seconds();
  if (arrived < 0) arrived = seconds;  // this rank has no slice
  run_.seconds.straggler_wait += arrived;
  run_.seconds.exposed_communication += seconds - arrived - (run_.seconds.optimizer - updated_before);
}

/// θ is gathered while the next slices are updated.
void ShardedUpdate::step_slices(double learning_rate) {
  std::vector<comm::RequestPtr> gathers;
  run_.optimizer->begin_step(learning_rate);
  for (const Piece& piece : pieces_) {
    const Phase phase(run_, run_.seconds.optimizer);
    run_.runtime.update(piece.slice.last - piece.slice.first, [&] { step_part(piece.slice, piece.begin); });
    gathers.push_back(run_.communicator.start_all_gather(part(run_.state.parameters, piece.bucket)));
  }
  const Phase phase(run_, run_.seconds.exposed_communication);
  for (const comm::RequestPtr& gather : gathers) gather->wait();
}

/// The step of the whole shard.
void ShardedUpdate::step_shard(double learning_rate) {
  const MutableView theta = run_.state.parameters;
  {
    const Phase phase(run_, run_.seconds.optimizer);
    if (own_.size() > 1) {
      pack(run_.gradient, own_, run_.gradient);  // a number moves towards the start, or stays
      pack(theta, own_, theta);
    }
    const FloatRange shard = own_.size() == 1 ? own_.front() : FloatRange{0, size_};
    run_.runtime.update(shard.last - shard.first, [&] {
      run_.optimizer->step(part(theta, shard), part(View(run_.gradient), shard), learning_rate);
    });
    if (own_.size() > 1) {
      move_back(theta, own_, size_);
      move_back(run_.gradient, own_, size_);
    }
  }
  const Phase phase(run_, run_.seconds.exposed_communication);
  if (run_.one_theta) return run_.communicator.barrier();
  std::vector<comm::RequestPtr> gathers;
  for (const Piece& piece : pieces_) {
    gathers.push_back(run_.communicator.start_all_gather(part(theta, piece.bucket)));
  }
  for (const comm::RequestPtr& gather : gathers) gather->wait();
}

}  // namespace unisono::parallel
