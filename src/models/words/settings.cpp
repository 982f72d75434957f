#include "unisono/kernels/in_place.hpp"
#include "unisono/models/word_settings.hpp"

namespace unisono::models {
namespace {

void describe_dimension(ConfigVisitor& visitor, std::int64_t& dimension) {
  visitor.field({.name = "dimension", .meaning = "length of a word vector", .minimum = 1, .maximum = 65536}, dimension);
}

}  // namespace

void Word2vecSettings::describe(ConfigVisitor& visitor) {
  visitor.choice({.name = "architecture", .meaning = "which words predict which"}, architecture, kWordArchitectures);
  visitor.choice({.name = "output", .meaning = "approximation of the softmax over all words"}, output, kWordOutputs);
  describe_dimension(visitor, dimension);
  visitor.field(
      {.name = "window",
       .meaning = "largest number of words on either side; the actual number is drawn at random from 1 to `window`",
       .unit = "words",
       .minimum = 1,
       .maximum = kernels::kMaximumWindow / 2},
      window);
  visitor.field({.name = "negatives",
                 .meaning = "for negative_sampling: number of negative words, drawn with probability ~ count^0.75",
                 .minimum = 1,
                 .maximum = kernels::kMaximumOutputs - 1},
                negatives);
  visitor.field({.name = "negatives_shared_by",
                 .meaning = "for skip_gram with negative_sampling: number of words of a window that share the same "
                            "negatives; more is faster, 1 is as in word2vec.c",
                 .unit = "words",
                 .minimum = 1,
                 .maximum = kernels::kMaximumWindow},
                negatives_shared_by);
  visitor.field({.name = "subsample",
                 .meaning = "subsampling of frequent words: with threshold t, an occurrence of a word of frequency f "
                            "is kept with probability (√(f/t) + 1) · t/f; 0: keep all",
                 .minimum = 0,
                 .maximum = 1},
                subsample);
}

void GloveSettings::describe(ConfigVisitor& visitor) {
  describe_dimension(visitor, dimension);
  visitor.field({.name = "x_max",
                 .meaning = "a co-occurrence count x has the weight min(1, (x / x_max)^alpha)",
                 .minimum = 0,
                 .minimum_excluded = true},
                x_max);
  visitor.field({.name = "alpha", .meaning = "exponent of the weight: see x_max", .minimum = 0}, alpha);
}

}  // namespace unisono::models
