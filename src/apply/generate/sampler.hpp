#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "unisono/tensor/allocator.hpp"

namespace unisono::apply {

/// How the next token is drawn from a model's logits z [V]. In this order:
///   z of tokens that the text has already is divided by the penalty R where positive, else multiplied by it
///     (Keskar et al., "CTRL", 2019);
///   p = softmax(z / temperature); with temperature 0 the largest z wins, of equals the lower token;
///   only the k most likely tokens stay;
///   only the most likely of these stay whose probabilities together reach P of theirs (nucleus sampling: Holtzman et
///     al., ICLR 2020).
struct SamplingRule {
  double temperature = 1;
  std::int64_t top_k = 0;  ///< 0: all
  double top_p = 1;
  double repetition_penalty = 1;
};

/// A token and a number that is proportional to the probability that it is drawn.
struct WeightedToken {
  std::int32_t token = 0;
  double weight = 0;
  bool operator==(const WeightedToken&) const = default;
};

/// Which token was drawn, and the natural logarithm of the probability that the model itself gives it.
struct DrawnToken {
  std::int32_t token = 0;
  double log_probability = 0;
};

/// Draws tokens by a rule. What is drawn depends on the seed, the text's number and the token's number in it, besides
/// logits and tokens.
class Sampler {
 public:
  Sampler(const SamplingRule& rule, std::uint64_t seed) : rule_(rule), seed_(seed) {}

  /// \param logits [V] \param tokens of the text so far \param text its number \param place the token's number
  /// \throws CheckpointError for logits that are no numbers
  DrawnToken draw(View logits, std::span<const std::int32_t> tokens, std::uint64_t text, std::uint32_t place);
  /// The tokens that `draw` draws from, in ascending order.
  std::vector<WeightedToken> candidates(View logits, std::span<const std::int32_t> tokens);

 private:
  void penalise(View logits, std::span<const std::int32_t> tokens);

  SamplingRule rule_;
  std::uint64_t seed_;
  std::vector<double> z_;
  std::vector<bool> seen_;
};

}  // namespace unisono::apply
