#include "batch/subtrees.hpp"

#include <algorithm>
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

}  // namespace unisono::strategies
