#pragma once

#include <functional>
#include <vector>

#include "unisono/comm/communicator.hpp"

namespace unisono::comm {

/// Between ranks that share no memory, an allreduce whose vectors have so many bytes on all ranks together sends whole
/// vectors to all; longer ones go by slices.
inline constexpr Index kShortSumBytes = Index{64} << 10;

/// The floats of a bucket of about so many bytes: whole cache lines.
Index bucket_floats(Index bucket_bytes);

/// Sums a gradient over all ranks while it is being computed. The vector is cut from its end into buckets of equal
/// size; a bucket's allreduce starts as soon as all of it is final, in the same order on every rank.
///
///     GradientBuckets buckets(communicator, gradient, bucket_bytes);
///     model.loss_and_gradient(…, [&](Index first, Index last) { buckets.ready(first, last); }, …);
///     buckets.finish();  // gradient is the sum
///
/// Cost per step: one allreduce of 4N bytes in ⌈4N / bucket bytes⌉ parts.
class GradientBuckets {
 public:
  /// \param gradient the same length on all ranks; fastest in memory of communicator.shared_allocator()
  /// \param bucket_bytes 0: communicator.bucket_bytes()
  GradientBuckets(Communicator& communicator, MutableView gradient, Index bucket_bytes = 0,
                  const Clock& clock = steady_clock());
  /// Starts the sum of floats [first, last) of the gradient over all ranks.
  using Start = std::function<RequestPtr(Index first, Index last)>;
  /// For sums that are no allreduces: `start` starts the sum of each bucket.
  /// \param size of the gradient, in floats \param bucket_bytes above 0
  GradientBuckets(Index size, Index bucket_bytes, Start start, const Clock& clock = steady_clock());

  /// Says that gradient[first, last) is final. Ranges come from the end of the vector to its start; the up to 15 unused
  /// floats between blocks need not be named.
  void ready(Index first, Index last);

  /// Says that the whole gradient is final: starts the remaining buckets, waits for all, and resets for the next step.
  /// Collective.
  void finish();

  /// Seconds so far for which this rank waited for the last rank to bring its gradient. Between nodes this cannot be
  /// told apart from waiting for the allreduces, and all waiting counts as exposed.
  double straggler_wait_seconds() const { return straggler_seconds_; }
  /// Seconds so far for which this rank waited for allreduces; between nodes also for the last rank to bring its
  /// gradient. They do not overlap with straggler_wait_seconds.
  double exposed_seconds() const { return exposed_seconds_; }

 private:
  void start_final_buckets();

  Index size_;
  Index bucket_size_;
  Start start_;
  const Clock& clock_;
  Index final_first_;    ///< gradient[final_first_, N) is final
  Index started_first_;  ///< the allreduces of gradient[started_first_, N) are started
  std::vector<RequestPtr> requests_;
  double straggler_seconds_ = 0, exposed_seconds_ = 0;
};

}  // namespace unisono::comm
