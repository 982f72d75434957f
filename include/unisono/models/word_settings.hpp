#pragma once

#include <cstdint>

#include "unisono/base/config.hpp"

namespace unisono::models {

enum class WordArchitecture { skip_gram, cbow };

inline constexpr Named<WordArchitecture> kWordArchitectures[] = {
    {WordArchitecture::skip_gram, "skip_gram", "each word of the window predicts the word in its middle"},
    {WordArchitecture::cbow, "cbow", "the mean of the words of the window predicts the word in its middle"}};

enum class WordOutput { negative_sampling, hierarchical_softmax };

inline constexpr Named<WordOutput> kWordOutputs[] = {
    {WordOutput::negative_sampling, "negative_sampling", "the word against some words that are drawn at random"},
    {WordOutput::hierarchical_softmax, "hierarchical_softmax", "the path to the word in a Huffman tree"}};

/// `[model] kind = "word2vec"`
struct Word2vecSettings {
  WordArchitecture architecture = WordArchitecture::skip_gram;
  WordOutput output = WordOutput::negative_sampling;
  std::int64_t dimension = 100;
  std::int64_t window = 5;
  std::int64_t negatives = 5;
  std::int64_t negatives_shared_by = 4;  ///< context words that share their negatives; skip_gram, negative_sampling
  double subsample = 1e-3;
  void describe(ConfigVisitor& visitor);
};

/// `[model] kind = "glove"`
struct GloveSettings {
  std::int64_t dimension = 100;
  double x_max = 100, alpha = 0.75;
  void describe(ConfigVisitor& visitor);
};

}  // namespace unisono::models
