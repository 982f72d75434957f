#include "words/huffman.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

namespace unisono::models {

HuffmanTree::HuffmanTree(std::span<const std::int64_t> counts) {
  const std::size_t words = counts.size();
  // Leaves 0 … V−1, then inner nodes in the order in which they are made; the root comes last.
  std::vector<std::size_t> parent(2 * words);
  std::vector<float> branch(2 * words);
  using Entry = std::pair<std::int64_t, std::size_t>;  // count, node
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
  for (std::size_t i = 0; i < words; ++i) open.push({counts[i], i});
  for (std::size_t made = words; open.size() > 1; ++made) {
    const Entry first = open.top();
    open.pop();
    const Entry second = open.top();
    open.pop();
    parent[first.second] = parent[second.second] = made;
    branch[first.second] = 1;
    open.push({first.first + second.first, made});
  }
  const std::size_t root = words < 2 ? 0 : 2 * words - 2;
  offsets_.push_back(0);
  for (std::size_t word = 0; word < words; ++word) {
    const std::size_t first = nodes_.size();
    for (std::size_t node = word; node != root; node = parent[node]) {
      nodes_.push_back(static_cast<std::int32_t>(parent[node] - words));
      targets_.push_back(branch[node]);
    }
    std::reverse(nodes_.begin() + static_cast<std::ptrdiff_t>(first), nodes_.end());
    std::reverse(targets_.begin() + static_cast<std::ptrdiff_t>(first), targets_.end());
    offsets_.push_back(nodes_.size());
  }
}

std::size_t HuffmanTree::longest() const {
  std::size_t longest = 0;
  for (std::size_t i = 1; i < offsets_.size(); ++i) longest = std::max(longest, offsets_[i] - offsets_[i - 1]);
  return longest;
}

}  // namespace unisono::models
