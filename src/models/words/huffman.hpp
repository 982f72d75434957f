#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace unisono::models {

/// The Huffman tree over words, in which frequent words have short paths: its inner nodes are the outputs of
/// hierarchical softmax.
///   Huffman, Proc. IRE 40(9), 1952; Morin & Bengio, AISTATS 2005.
class HuffmanTree {
 public:
  HuffmanTree() = default;
  explicit HuffmanTree(std::span<const std::int64_t> counts);

  /// The inner nodes on the path from the root to a word, numbered 0 … V − 2.
  std::span<const std::int32_t> nodes(std::int32_t word) const { return part(nodes_, word); }
  /// For each of these nodes 1 if the path takes the first branch, 0 if it takes the second.
  std::span<const float> targets(std::int32_t word) const { return part(targets_, word); }
  /// Nodes of the longest path.
  std::size_t longest() const;

 private:
  template <typename T>
  std::span<const T> part(const std::vector<T>& values, std::int32_t word) const {
    const auto first = offsets_[static_cast<std::size_t>(word)], last = offsets_[static_cast<std::size_t>(word) + 1];
    return std::span<const T>(values).subspan(first, last - first);
  }

  std::vector<std::size_t> offsets_;  ///< [V + 1]
  std::vector<std::int32_t> nodes_;
  std::vector<float> targets_;
};

}  // namespace unisono::models
