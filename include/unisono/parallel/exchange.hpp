#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "unisono/base/threads.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/kernels/backend.hpp"
#include "unisono/parallel/step_terms.hpp"

namespace unisono::parallel {

/// Bytes of a bucket of the gradient, as the run asks for them, or as its communicator chooses.
Index bucket_bytes_of(const StepTerms& run);

/// One of the micro-batches that this rank computes in a step.
struct MicroBatchPlace {
  Index number = 0, count = 1;     ///< number of the micro-batch among the step's, of all replicas; how many these are
  bool first = true, last = true;  ///< whether it is this rank's first or last in the step
};

using models::GradientTarget;

/// Whether a micro-batch's gradient begins a sum of gradients, and whether it completes one.
struct SumPlace {
  bool begins = true, completes = true;
};

/// The target of a micro-batch at this place of a sum.
inline GradientTarget target_at(const SumPlace& place, MutableView gradient, GradientReady ready = {}) {
  return {gradient, place.begins ? kernels::Write::overwrite : kernels::Write::add, ready, place.completes};
}

/// What happens to the gradient between the backward pass and the optimizer step, e.g. a sum over the ranks.
class GradientExchange {
 public:
  virtual ~GradientExchange() = default;
  /// Where this rank's next micro-batch puts its gradient, and who is told when ranges of it are final, before the next
  /// call: from the end to the start, in the same order on every rank.
  virtual GradientTarget target(const MicroBatchPlace& place) = 0;
  /// What `target` will say of this or a later micro-batch: whether its gradient begins a sum, and completes one.
  virtual SumPlace sum_place(const MicroBatchPlace& place) const { return {place.first, place.last}; }
  /// Called when all of g is final on this rank. On return g is the exchanged gradient,
  /// for the optimizer, and the exchange is ready for the next step. Collective.
  virtual void finish() = 0;

  /// Seconds that an exchange has blocked this rank so far, in two parts that do not overlap.
  struct BlockedSeconds {
    double communication = 0;  ///< while all ranks were present
    double stragglers = 0;     ///< waiting for ranks that had not arrived yet
  };
  /// The seconds that `finish`, and telling what `target` says, have blocked this rank so far.
  virtual BlockedSeconds blocked() const = 0;
};

/// A sum over ranks, g ← Σ_r g_r, in buckets: the allreduce of a bucket begins as soon as the bucket is final. Li et
/// al., "PyTorch distributed", VLDB 2020. Cost per step: allreduces of 4N bytes together, N flops.
/// \param gradient the same length on all ranks; overwritten with the sum
/// \param bucket_bytes 0: chosen automatically
/// \param clock measures the BlockedSeconds seconds
std::unique_ptr<GradientExchange> make_bucketed_sum(comm::Communicator& communicator, MutableView gradient,
                                                    Index bucket_bytes = 0, const Clock& clock = steady_clock());

/// The first half of a bucketed sum: each rank has the sum, with the bits of make_bucketed_sum, in its slice of each
/// bucket (StateShards); the rest of g is undefined. Cost per step: reduce-scatters of 4N bytes together, N/P flops.
/// \param bucket_bytes above 0
std::unique_ptr<GradientExchange> make_scattered_sum(comm::Communicator& communicator, MutableView gradient,
                                                     Index bucket_bytes, const Clock& clock = steady_clock());

/// A reproducible sum, g ← Σ of all micro-batches' gradients, in an order that does not depend on who computes which:
/// the m micro-batches of a step form L = min(leaves, m) leaves of a SumTree, runs of consecutive micro-batches whose
/// gradients are added one by one. A replica computes whole leaves and adds up its complete subtrees; all replicas
/// together add the rest of the tree. Cost per step: a replica makes a vector addition for each leaf after the first of
/// each of its subtrees (N flops, 12N bytes of memory); a tree sum in buckets, of 4N bytes for each subtree. Memory: a
/// vector of N for each subtree, in addition to g, and for each level of the largest subtree. With as many replicas as
/// a power of two divides L into, each replica has one subtree; else up to 2 log₂ L. \param replicas each computes the
/// leaves slice_of(L, rank, size)
/// \param kernels for vectors in plain memory
std::unique_ptr<GradientExchange> make_reproducible_sum(comm::Communicator& replicas, kernels::VectorKernels& kernels,
                                                        MutableView gradient, int leaves, Index bucket_bytes = 0,
                                                        const Clock& clock = steady_clock());

/// Wraps another exchange and adds the time that it blocks to the run's Seconds: waiting for messages and for other
/// ranks. Waiting for a device to finish the gradient counts as computation.
class TimedExchange final : public GradientExchange {
 public:
  /// \param backend in whose memory the gradient lies
  TimedExchange(const kernels::Backend& backend, Seconds& seconds, std::unique_ptr<GradientExchange> exchange)
      : backend_(backend), seconds_(seconds), exchange_(std::move(exchange)) {}

  GradientTarget target(const MicroBatchPlace& place) override;
  SumPlace sum_place(const MicroBatchPlace& place) const override { return exchange_->sum_place(place); }
  /// Passes on that g[first, last) is final. Called inside the backward pass, whose time counts as computation:
  /// subtracts the time that the exchange blocks.
  void ready(Index first, Index last);
  void finish() override;
  BlockedSeconds blocked() const override { return exchange_->blocked(); }

 private:
  /// Seconds of each kind that one call took.
  struct Elapsed {
    BlockedSeconds blocked;
    double device = 0;
  };
  template <typename Call>
  Elapsed count(Call call);

  const kernels::Backend& backend_;
  Seconds& seconds_;
  std::unique_ptr<GradientExchange> exchange_;
  GradientReady told_ = {};  ///< told by `ready`
};

/// How many vectors of g's size a replica needs in addition to g for sums by a tree of so many leaves
/// (communication.reduction = "reproducible").
/// \param leaves leaves of a step; 0: sums are fast, and need no vectors
int vectors_of_reproducible_sum(int leaves, int replica, int replicas);

/// Runs jobs on a thread of its own, one after the other, in the order in which they were started.
class Background {
 public:
  /// \param purpose what the thread is for; part of the error message where the system starts no more
  /// \param runtime starts the thread; must outlive this object
  explicit Background(std::string purpose, const Runtime& runtime = machine_runtime())
      : runtime_(runtime), changed_(runtime), thread_(std::move(purpose), 1, runtime) {}
  /// Drops the jobs that have not begun. The owner must have told the running job to end.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  /// Starts a job. \return waits for the job, and rethrows what it or an earlier job has thrown; must not outlive this
  /// object
  comm::RequestPtr start(std::function<void()> job);

 private:
  class Job;
  void run();

  const Runtime& runtime_;
  std::mutex mutex_;
  Condition changed_;
  std::deque<std::function<void()>> jobs_;
  std::int64_t started_ = 0, done_ = 0;
  std::exception_ptr failure_;  ///< the first exception of a job, after which no job is run
  bool ends_ = false;
  Threads thread_;
};

}  // namespace unisono::parallel
