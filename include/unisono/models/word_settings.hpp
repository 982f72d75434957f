#pragma once

#include <cstdint>
#include <string>

#include "unisono/base/config.hpp"

namespace unisono::models {

/// `[model] kind = "word2vec"`
struct Word2vecSettings {
  std::string architecture = "skip_gram";    ///< skip_gram, cbow
  std::string output = "negative_sampling";  ///< negative_sampling, hierarchical_softmax
  std::int64_t dimension = 100;
  std::int64_t window = 5;
  std::int64_t negatives = 5;
  std::int64_t negatives_shared_by = 4;  ///< words of a context; of skip_gram with negative_sampling
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
