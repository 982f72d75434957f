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

/// A word's context, or some words of it, and the outputs that they are to predict.
struct Window {
  std::vector<std::int32_t> context;
  std::array<std::int32_t, kernels::kMaximumOutputs> drawn{};
  std::span<const std::int32_t> outputs;  ///< `drawn`, or a path of the tree
  std::span<const float> targets;
};

/// What windows are drawn from: a function of the words' counts. Shared by threads.
class WindowSampler {
 public:
  /// \throws ConfigError
  WindowSampler(const Word2vecSettings& settings, std::span<const std::int64_t> counts);

  /// The words of a sentence that subsampling keeps. \param kept overwritten
  void subsample(std::span<const std::int32_t> sentence, FastRandom& random, std::vector<std::int32_t>& kept) const;
  /// The words around place i, overwriting.
  void draw_context(std::span<const std::int32_t> kept, std::size_t i, FastRandom& random,
                    std::vector<std::int32_t>& context) const;
  /// How many words of a context predict the same outputs; the next ones have negatives of their own.
  std::size_t group() const { return group_; }
  /// What some words of the context of `word` are to predict.
  void draw_outputs(std::int32_t word, FastRandom& random, Window& window) const;

 private:
  void draw_negatives(std::int32_t word, FastRandom& random, Window& window) const;

  Word2vecSettings settings_;
  std::vector<std::uint32_t> keep_;  ///< of 2³²; empty: all are kept
  AliasTable negatives_;
  std::size_t outputs_ = 0, group_;
  std::array<float, kernels::kMaximumOutputs> first_is_right_{};
  HuffmanTree tree_;  ///< of hierarchical softmax
  bool hierarchical_;
};

}  // namespace unisono::models
