#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "exchange/reproducible_sum.hpp"
#include "unisono/base/clock.hpp"
#include "unisono/comm/buckets.hpp"
#include "unisono/comm/sum_tree.hpp"
#include "unisono/parallel/exchange.hpp"
#include "unisono/parallel/step_terms.hpp"
#include "unisono/tensor/layout.hpp"

namespace unisono::parallel {
namespace {

class BucketedSum final : public GradientExchange {
 public:
  BucketedSum(MutableView gradient, comm::GradientBuckets buckets)
      : gradient_(gradient), buckets_(std::move(buckets)) {}
  GradientTarget target(const MicroBatchPlace& place) override {
    return target_at(sum_place(place), gradient_, place.last ? GradientReady(buckets_) : GradientReady());
  }
  void finish() override { buckets_.finish(); }
  BlockedSeconds blocked() const override {
    return {.communication = buckets_.exposed_seconds(), .stragglers = buckets_.straggler_wait_seconds()};
  }

 private:
  MutableView gradient_;
  comm::GradientBuckets buckets_;
};

}  // namespace

Index bucket_bytes_of(const StepTerms& run) {
  return run.bucket_bytes > 0 ? run.bucket_bytes : run.communicator.bucket_bytes();
}

std::unique_ptr<GradientExchange> make_bucketed_sum(comm::Communicator& communicator, MutableView gradient,
                                                    Index bucket_bytes, const Clock& clock) {
  return std::make_unique<BucketedSum>(gradient, comm::GradientBuckets(communicator, gradient, bucket_bytes, clock));
}

std::unique_ptr<GradientExchange> make_scattered_sum(comm::Communicator& communicator, MutableView gradient,
                                                     Index bucket_bytes, const Clock& clock) {
  const auto start = [&communicator, gradient](Index first, Index last) {
    return communicator.start_reduce_scatter_sum(part(gradient, {first, last}));
  };
  return std::make_unique<BucketedSum>(gradient,
                                       comm::GradientBuckets(std::ssize(gradient), bucket_bytes, start, clock));
}

/// Makes a call and adds to the run's seconds how long it was blocked by messages and by stragglers.
template <typename Call>
TimedExchange::Elapsed TimedExchange::count(Call call) {
  const BlockedSeconds before = exchange_->blocked();
  const double device_before = backend_.waited_seconds();
  call();
  const BlockedSeconds after = exchange_->blocked();
  Elapsed elapsed;
  elapsed.device = backend_.waited_seconds() - device_before;
  elapsed.blocked.communication = after.communication - before.communication - elapsed.device;
  elapsed.blocked.stragglers = after.stragglers - before.stragglers;
  seconds_.exposed_communication += elapsed.blocked.communication;
  seconds_.straggler_wait += elapsed.blocked.stragglers;
  return elapsed;
}

GradientTarget TimedExchange::target(const MicroBatchPlace& place) {
  GradientTarget target = exchange_->target(place);
  told_ = target.ready;
  if (told_) target.ready = *this;
  return target;
}

void TimedExchange::ready(Index first, Index last) {
  const Elapsed elapsed = count([&] { told_(first, last); });
  seconds_.compute -= elapsed.blocked.communication + elapsed.blocked.stragglers;
}

void TimedExchange::finish() {
  const Elapsed elapsed = count([&] { exchange_->finish(); });
  seconds_.compute += elapsed.device;
}

class Background::Job final : public comm::Request {
 public:
  Job(Background& background, std::int64_t number) : background_(background), number_(number) {}

  void wait() override {
    std::unique_lock lock(background_.mutex_);
    background_.changed_.wait(lock, [this] { return is_over(); });
    if (background_.failure_) std::rethrow_exception(background_.failure_);
  }
  bool test() override {
    const std::lock_guard lock(background_.mutex_);
    return is_over();
  }
  bool wait_unless(const std::function<bool()>& enough) override {
    for (Idle idle(0, background_.runtime_); !test(); idle.pause()) {
      if (enough()) return false;
    }
    return true;
  }

 private:
  bool is_over() const { return background_.done_ > number_ || background_.failure_; }

  Background& background_;
  std::int64_t number_;
};

Background::~Background() {
  const std::lock_guard lock(mutex_);
  jobs_.clear();
  ends_ = true;
  changed_.notify_all();
}

comm::RequestPtr Background::start(std::function<void()> job) {
  if (thread_.size() == 0) thread_.start([this] { run(); });
  const std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(job));
  changed_.notify_all();
  return std::make_unique<Job>(*this, started_++);
}

void Background::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ends_ || !jobs_.empty(); });
    if (ends_ || failure_) return;
    const std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    std::exception_ptr failure;
    try {
      job();
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    failure_ = failure;
    ++done_;
    changed_.notify_all();
  }
}

namespace {

std::vector<comm::Slice> shares_of(int leaves, int ranks) {
  std::vector<comm::Slice> shares;
  for (int rank = 0; rank < ranks; ++rank) shares.push_back(comm::slice_of(leaves, rank, ranks));
  return shares;
}

/// How the gradients of a step of so many leaves are summed.
struct Tree {
  Tree(int leaves, int rank, int ranks)
      : tree(leaves),
        own(comm::slice_of(leaves, rank, ranks)),
        exchange(tree, shares_of(leaves, ranks)),
        plan(plan_leaves(tree, own, exchange.vectors)) {}

  comm::SumTree tree;
  comm::Slice own;  ///< this rank's leaves
  comm::TreeSum exchange;
  LeafPlan plan;
};

/// The leaf of a micro-batch.
struct LeafPlace {
  Index number = 0;
  bool begins = false, ends = false;  ///< with this micro-batch
};

LeafPlace leaf_of(const MicroBatchPlace& place, int leaves) {
  int leaf = static_cast<int>(place.number * leaves / place.count);
  while (comm::slice_of(place.count, leaf, leaves).last <= place.number) ++leaf;
  while (comm::slice_of(place.count, leaf, leaves).first > place.number) --leaf;
  const comm::Slice run = comm::slice_of(place.count, leaf, leaves);
  return {leaf, place.number == run.first, place.number + 1 == run.last};
}

class ReproducibleSum final : public GradientExchange {
 public:
  ReproducibleSum(comm::Communicator& replicas, kernels::VectorKernels& kernels, MutableView gradient, int leaves,
                  Index bucket_bytes, const Clock& clock)
      : replicas_(replicas),
        kernels_(kernels),
        gradient_(gradient),
        leaves_(leaves),
        buckets_(
            static_cast<Index>(gradient.size()), bucket_bytes > 0 ? bucket_bytes : replicas.bucket_bytes(),
            [this](Index first, Index last) { return start(first, last); }, clock) {
    use_tree_of(leaves);
  }

  GradientTarget target(const MicroBatchPlace& place) override;
  SumPlace sum_place(const MicroBatchPlace& place) const override {
    const LeafPlace leaf = leaf_of(place, leaves_of(place));
    return {leaf.begins, leaf.ends};
  }
  void ready(Index first, Index last);
  void finish() override { buckets_.finish(); }
  BlockedSeconds blocked() const override {
    return {.communication = buckets_.exposed_seconds(), .stragglers = buckets_.straggler_wait_seconds()};
  }

 private:
  void use_tree_of(int leaves);
  const LeafPlan::Leaf& planned(const LeafPlace& leaf) const {
    return now_->plan.leaves[static_cast<std::size_t>(leaf.number - now_->own.first)];
  }
  int leaves_of(const MicroBatchPlace& place) const { return static_cast<int>(std::min<Index>(leaves_, place.count)); }
  MutableView vector(int number);
  comm::RequestPtr start(Index first, Index last);

  comm::Communicator& replicas_;
  kernels::VectorKernels& kernels_;
  MutableView gradient_;
  int leaves_;
  comm::GradientBuckets buckets_;
  std::map<int, Tree> trees_;      ///< by the number of leaves
  const Tree* now_ = nullptr;      ///< of the present step
  LeafPlace leaf_;                 ///< of the micro-batch for which a target was asked last
  std::vector<Buffer> exchanged_;  ///< this rank's subtrees but the last, which is g
  std::vector<Buffer> right_;      ///< right children that are not yet added, by their level
};

/// Makes the tree of a step, and the memory that it needs. Collective where it is the first with so many leaves.
void ReproducibleSum::use_tree_of(int leaves) {
  now_ = &trees_.try_emplace(leaves, leaves, replicas_.rank(), replicas_.size()).first->second;
  const auto size = static_cast<Index>(gradient_.size());
  while (std::ssize(exchanged_) + 1 < now_->plan.held) exchanged_.emplace_back(size, replicas_.shared_allocator());
  while (std::ssize(right_) < now_->plan.vectors - now_->plan.held) right_.emplace_back(size, kernels_.memory());
}

MutableView ReproducibleSum::vector(int number) {
  if (number == 0) return gradient_;
  const int held = now_->plan.held;
  return (number < held ? exchanged_[static_cast<std::size_t>(number) - 1]
                        : right_[static_cast<std::size_t>(number - held)])
      .view();
}

GradientTarget ReproducibleSum::target(const MicroBatchPlace& place) {
  use_tree_of(leaves_of(place));
  if (now_->own.first == now_->own.last) return {gradient_, kernels::Write::overwrite};
  leaf_ = leaf_of(place, now_->tree.leaves());
  return target_at(sum_place(place), vector(planned(leaf_).target),
                   leaf_.ends ? GradientReady(*this) : GradientReady());
}

/// What follows for the leaf that ends with the present micro-batch.
void ReproducibleSum::ready(Index first, Index last) {
  for (const LeafPlan::Addition& addition : planned(leaf_).additions) {
    kernels_.axpby(1, part(vector(addition.from), {first, last}), 1, part(vector(addition.to), {first, last}));
  }
  if (leaf_.number + 1 == now_->own.last) buckets_.ready(first, last);
}

comm::RequestPtr ReproducibleSum::start(Index first, Index last) {
  std::vector<std::span<float>> vectors;
  for (int i = 0; i < now_->plan.held; ++i) vectors.push_back(part(vector(i), {first, last}));
  return replicas_.start_tree_sum(vectors, now_->exchange);
}

}  // namespace

int vectors_of_reproducible_sum(int leaves, int replica, int replicas) {
  return leaves == 0 ? 0 : Tree(leaves, replica, replicas).plan.vectors - 1;
}

std::unique_ptr<GradientExchange> make_reproducible_sum(comm::Communicator& replicas, kernels::VectorKernels& kernels,
                                                        MutableView gradient, int leaves, Index bucket_bytes,
                                                        const Clock& clock) {
  return std::make_unique<ReproducibleSum>(replicas, kernels, gradient, leaves, bucket_bytes, clock);
}

namespace {

class Planner {
 public:
  Planner(const comm::SumTree& tree, comm::Slice own, LeafPlan& plan) : tree_(tree), own_(own), plan_(plan) {}

  /// Plans that vector `target` becomes the value of a node.
  void add(comm::SumTree::Node node, int target) {
    if (node.level == 0) {
      plan_.leaves[static_cast<std::size_t>(node.number - own_.first)].target = target;
      return;
    }
    add(comm::SumTree::left(node), target);
    const comm::SumTree::Node right = comm::SumTree::right(node);
    if (tree_.is_empty(right)) return;
    const int from = plan_.held + right.level;
    plan_.vectors = std::max(plan_.vectors, from + 1);
    add(right, from);
    const auto last = static_cast<std::size_t>(tree_.leaves_of(right).last - own_.first) - 1;
    plan_.leaves[last].additions.push_back({target, from});
  }

 private:
  const comm::SumTree& tree_;
  comm::Slice own_;
  LeafPlan& plan_;
};

}  // namespace

LeafPlan plan_leaves(const comm::SumTree& tree, comm::Slice own, int held) {
  LeafPlan plan{.leaves = std::vector<LeafPlan::Leaf>(static_cast<std::size_t>(own.last - own.first)),
                .held = held,
                .vectors = held};
  const auto nodes = tree.cover(own);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    Planner(tree, own, plan).add(nodes[i], comm::TreeSum::vector_of(i, nodes.size()));
  }
  return plan;
}

}  // namespace unisono::parallel
