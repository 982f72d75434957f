#include "unisono/kernels/in_place.hpp"
#include "unisono/models/word_settings.hpp"

namespace unisono {
namespace {

void describe_dimension(ConfigVisitor& visitor, std::int64_t& dimension) {
  visitor.field({.name = "dimension", .meaning = "numbers of a word's vector", .minimum = 1, .maximum = 65536},
                dimension);
}

}  // namespace

void Word2vecSettings::describe(ConfigVisitor& visitor) {
  visitor.choice({.name = "architecture", .meaning = "what predicts what"}, architecture,
                 {{"skip_gram", "each word around it predicts the word in the middle"},
                  {"cbow", "the mean of the words around it predicts the word in the middle"}});
  visitor.choice({.name = "output", .meaning = "what stands for a softmax over all words"}, output,
                 {{"negative_sampling", "the word against some that are drawn at random"},
                  {"hierarchical_softmax", "the word's path through a Huffman tree"}});
  describe_dimension(visitor, dimension);
  visitor.field({.name = "window",
                 .meaning = "the most words on either side; each time 1 to so many, at random",
                 .unit = "words",
                 .minimum = 1,
                 .maximum = kMaximumWindow / 2},
                window);
  visitor.field({.name = "negatives",
                 .meaning = "negative_sampling: words drawn with probability ~ count^0.75",
                 .minimum = 1,
                 .maximum = kMaximumOutputs - 1},
                negatives);
  visitor.field({.name = "negatives_shared_by",
                 .meaning = "skip_gram with negative_sampling: how many words of a context predict the same negatives; "
                            "more are faster, 1 is word2vec's way",
                 .unit = "words",
                 .minimum = 1,
                 .maximum = kMaximumWindow},
                negatives_shared_by);
  visitor.field(
      {.name = "subsample",
       .meaning = "t: an occurrence of a word of frequency f is kept with probability (√(f/t) + 1) · t/f; 0: all",
       .minimum = 0,
       .maximum = 1},
      subsample);
}

void GloveSettings::describe(ConfigVisitor& visitor) {
  describe_dimension(visitor, dimension);
  visitor.field({.name = "x_max",
                 .meaning = "a co-occurrence x weighs min(1, (x / x_max)^alpha)",
                 .minimum = 0,
                 .minimum_excluded = true},
                x_max);
  visitor.field({.name = "alpha", .meaning = "see x_max", .minimum = 0}, alpha);
}

}  // namespace unisono
