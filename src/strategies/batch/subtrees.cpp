#include "batch/subtrees.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

namespace unisono::strategies {

using comm::SumTree;

Buffer* Subtrees::take_buffer() {
  if (free_.empty()) return &buffers_.emplace_back(size_, kernels_.memory());
  Buffer* const buffer = free_.back();
  free_.pop_back();
  return buffer;
}

MutableView Subtrees::leaf() {
  if (leaf_ == nullptr) leaf_ = take_buffer();
  kernels_.clear(leaf_->view());
  return leaf_->view();
}

void Subtrees::add(int portion) { insert({tree_.largest({0, portion}), std::exchange(leaf_, nullptr)}); }

/// value(k, j) = value(k − 1, 2j) + value(k − 1, 2j + 1), as long as the neighbour is held, too.
void Subtrees::insert(Held held) {
  for (;;) {
    const SumTree::Node neighbour{held.node.level, held.node.number ^ 1};
    const auto found = std::ranges::find(held_, neighbour, &Held::node);
    if (found == held_.end()) break;
    kernels_.axpby(1, held.values->view(), 1, found->values->view());
    free_.push_back(held.values);
    held = {tree_.largest({held.node.level + 1, held.node.number / 2}), found->values};
    held_.erase(found);
  }
  const auto first_leaf = [this](const Held& one) { return tree_.leaves_of(one.node).first; };
  held_.insert(std::ranges::lower_bound(held_, first_leaf(held), {}, first_leaf), held);
}

void Subtrees::clear() {
  for (const Held& one : held_) free_.push_back(one.values);
  held_.clear();
}

std::vector<SumTree::Node> Subtrees::nodes() const {
  std::vector<SumTree::Node> nodes;
  for (const Held& one : held_) nodes.push_back(one.node);
  return nodes;
}

std::vector<View> Subtrees::vectors() const {
  std::vector<View> vectors;
  for (const Held& one : held_) vectors.push_back(std::as_const(*one.values).view());
  return vectors;
}

namespace {

constexpr int kNodeTag = 3, kShardTag = 4;

void wait_all(std::vector<comm::RequestPtr>& requests) {
  for (comm::RequestPtr& request : requests) request->wait();
}

/// sum ← the value of the postfix program over these inputs, in pieces that stay in the cache.
void add_up(const std::vector<int>& program, const std::vector<View>& inputs, MutableView sum) {
  constexpr std::size_t kPiece = 1024;
  std::vector<std::array<float, kPiece>> stack(program.size());
  for (std::size_t first = 0; first < sum.size(); first += kPiece) {
    const std::size_t count = std::min(kPiece, sum.size() - first);
    std::size_t top = 0;
    for (const int next : program) {
      if (next != comm::TreeSum::kAdd) {
        std::ranges::copy(inputs[static_cast<std::size_t>(next)].subspan(first, count), stack[top++].begin());
        continue;
      }
      --top;
      for (std::size_t i = 0; i < count; ++i) stack[top - 1][i] += stack[top][i];
    }
    std::copy_n(stack.front().begin(), count, sum.begin() + static_cast<std::ptrdiff_t>(first));
  }
}

}  // namespace

std::int64_t sum_to_shards(comm::Communicator& ranks, const comm::TreeSum& order, std::span<const View> vectors,
                           const VectorShards& shards, MutableView shard) {
  const FloatRange own = shards.shard(ranks.rank());
  assert(std::ssize(shard) == own.last - own.first);
  std::vector<comm::RequestPtr> requests;
  std::vector<Buffer> received;
  std::vector<View> inputs;
  std::int64_t sent = 0;
  received.reserve(order.inputs.size());
  for (const comm::TreeSum::Input& input : order.inputs) {
    if (input.rank != ranks.rank()) {
      Buffer& buffer = received.emplace_back(std::ssize(shard));
      inputs.push_back(std::as_const(buffer).view());
      if (shard.empty()) continue;
      requests.push_back(ranks.start_receive(std::as_writable_bytes(buffer.view()), input.rank, kNodeTag));
      continue;
    }
    const View vector = vectors[static_cast<std::size_t>(input.vector)];
    inputs.push_back(part(vector, own));
    for (int peer = 0; peer < ranks.size(); ++peer) {
      const FloatRange theirs = shards.shard(peer);
      if (peer == ranks.rank() || theirs.first == theirs.last) continue;
      requests.push_back(ranks.start_send(std::as_bytes(part(vector, theirs)), peer, kNodeTag));
      sent += std::ssize(std::as_bytes(part(vector, theirs)));
    }
  }
  wait_all(requests);
  add_up(order.program, inputs, shard);
  return sent;
}

std::int64_t gather_shards(comm::Communicator& ranks, const VectorShards& shards, View shard, MutableView whole) {
  std::vector<comm::RequestPtr> requests;
  std::int64_t sent = 0;
  for (int peer = 0; peer < ranks.size(); ++peer) {
    const FloatRange theirs = shards.shard(peer);
    if (peer == ranks.rank()) {
      std::ranges::copy(shard, part(whole, theirs).begin());
      continue;
    }
    if (theirs.first != theirs.last) {
      requests.push_back(ranks.start_receive(std::as_writable_bytes(part(whole, theirs)), peer, kShardTag));
    }
    if (shard.empty()) continue;
    requests.push_back(ranks.start_send(std::as_bytes(shard), peer, kShardTag));
    sent += std::ssize(std::as_bytes(shard));
  }
  wait_all(requests);
  return sent;
}

}  // namespace unisono::strategies
