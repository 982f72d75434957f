#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "unisono/base/random.hpp"
#include "unisono/kernels/in_place.hpp"
#include "unisono/models/factory.hpp"

namespace unisono::models {

// Fast random draws for word2vec.

/// A cheap random generator: 64-bit multiplicative congruential, seeded by a RandomStream.
///   Steele & Vigna, "Computationally easy, spectrally good multipliers", Softw. Pract. Exp. 52(2), 2022; the upper
///   bits are used.
class FastRandom {
 public:
  explicit FastRandom(RandomStream& start)
      : state_((static_cast<std::uint64_t>(start.bits()) << 32 | start.bits()) | 1U) {}

  std::uint32_t bits() {
    state_ = state_ * 0xF1357AEA2E62A9C5ULL;
    return static_cast<std::uint32_t>(state_ >> 32);
  }
  /// A number in [0, n), uniform up to a bias of n / 2³².
  std::uint32_t below(std::uint32_t n) {
    return static_cast<std::uint32_t>((static_cast<std::uint64_t>(bits()) * n) >> 32);
  }

 private:
  std::uint64_t state_;
};

/// The alias method: draws i with probability proportional to weights[i], in constant time.
///   Walker, ACM Trans. Math. Softw. 3(3), 1977; tables as in Vose, IEEE Trans. Softw. Eng. 17(9), 1991.
class AliasTable {
 public:
  AliasTable() = default;
  explicit AliasTable(std::span<const double> weights);

  std::int32_t draw(FastRandom& random) const {
    const std::uint32_t own = random.below(static_cast<std::uint32_t>(slots_.size()));
    const Slot& slot = slots_[own];
    // Without a branch, which the CPU could not predict: all bits are set where the slot's own number is drawn.
    const std::uint32_t chosen = 0U - static_cast<std::uint32_t>(random.bits() < slot.own);
    return static_cast<std::int32_t>((own & chosen) | (static_cast<std::uint32_t>(slot.other) & ~chosen));
  }

 private:
  struct Slot {
    std::uint32_t own = 0;  ///< threshold, of 2³²: below it the slot's own number is drawn, else `other`
    std::int32_t other = 0;
  };
  std::vector<Slot> slots_;
};

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

/// One training window of word2vec: a word's context, or some words of it, and the outputs that these predict.
struct Window {
  std::vector<std::int32_t> context;
  std::array<std::int32_t, kernels::kMaximumOutputs> drawn{};
  std::span<const std::int32_t> outputs;  ///< words (in `drawn`), or the tree's nodes on a path
  std::span<const float> targets;
};

/// Draws windows; built from the words' counts. Thread-safe.
class WindowSampler {
 public:
  /// \throws ConfigError
  WindowSampler(const Word2vecSettings& settings, std::span<const std::int64_t> counts);

  /// The words of a sentence that subsampling keeps. \param kept overwritten
  void subsample(std::span<const std::int32_t> sentence, FastRandom& random, std::vector<std::int32_t>& kept) const;
  /// Draws the context of the word at place i: `context` is overwritten with the words around it.
  void draw_context(std::span<const std::int32_t> kept, std::size_t i, FastRandom& random,
                    std::vector<std::int32_t>& context) const;
  /// How many words of a context share one draw of outputs; the next ones get negatives of their own.
  std::size_t group() const { return group_; }
  /// Draws the outputs that words of the context of `word` predict: sets `outputs` and `targets`.
  void draw_outputs(std::int32_t word, FastRandom& random, Window& window) const;

 private:
  void draw_negatives(std::int32_t word, FastRandom& random, Window& window) const;

  Word2vecSettings settings_;
  std::vector<std::uint32_t> keep_;  ///< probability of each word to be kept, of 2³²; empty: all are kept
  AliasTable negatives_;
  std::size_t outputs_ = 0, group_;
  std::array<float, kernels::kMaximumOutputs> first_is_right_{};
  HuffmanTree tree_;  ///< of hierarchical softmax
  bool hierarchical_;
};

}  // namespace unisono::models
