#include <algorithm>
#include <map>
#include <memory>

#include "exchange/reproducible_sum.hpp"
#include "unisono/comm/buckets.hpp"
#include "unisono/comm/sum_tree.hpp"
#include "unisono/parallel/exchange.hpp"
#include "unisono/tensor/layout.hpp"

namespace unisono::parallel {
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
  void ready(const MicroBatchPlace& place, Index first, Index last) override;
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
  if (now_->own.first == now_->own.last) return {gradient_, kernels::Write::overwrite, false};
  const LeafPlace leaf = leaf_of(place, now_->tree.leaves());
  return {vector(planned(leaf).target), leaf.begins ? kernels::Write::overwrite : kernels::Write::add, leaf.ends};
}

void ReproducibleSum::ready(const MicroBatchPlace& place, Index first, Index last) {
  const LeafPlace leaf = leaf_of(place, now_->tree.leaves());
  for (const LeafPlan::Addition& addition : planned(leaf).additions) {
    kernels_.axpby(1, part(vector(addition.from), {first, last}), 1, part(vector(addition.to), {first, last}));
  }
  if (leaf.number + 1 == now_->own.last) buckets_.ready(first, last);
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
