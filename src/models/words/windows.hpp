#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "unisono/kernels/in_place.hpp"
#include "unisono/models/word_settings.hpp"
#include "words/draws.hpp"
#include "words/huffman.hpp"

namespace unisono::models {

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
