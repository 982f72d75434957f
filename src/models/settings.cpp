#include "unisono/models/settings.hpp"

#include "unisono/kernels/in_place.hpp"

namespace unisono::models {

void LinearSettings::describe(ConfigVisitor& visitor) {
  visitor.choice({.name = "loss", .meaning = "loss function that is minimised"}, loss, kLinearLosses);
  visitor.field(
      {.name = "l1", .meaning = "L1 regularisation l1 · Σ |w|, which makes some weights exactly 0", .minimum = 0}, l1);
  visitor.field({.name = "l2", .meaning = "L2 regularisation l2/2 · Σ w²", .minimum = 0}, l2);
  visitor.field({.name = "bias", .meaning = "give each output a bias, which is not regularised"}, bias);
  visitor.field({.name = "averaged",
                 .meaning = "averaged SGD: predict with the mean of the weights over all updates; only with strategies "
                            "that update in place, and not with lock-free threads"},
                averaged);
  visitor.field(
      {.name = "mini_batch",
       .meaning = "strategies that update in place: examples whose gradients are computed with the same "
                  "weights before any of them is applied; each weight takes their sum, the bias their mean. "
                  "1: a step for each example. Several are faster where features are few. A mini-batch has at "
                  "most 256 examples, and at most a 256th of the training set",
       .unit = "examples",
       .minimum = 1,
       .maximum = kernels::kMostMiniBatch},
      mini_batch);
}

void FactorizationSettings::describe(ConfigVisitor& visitor) {
  visitor.field(
      {.name = "dimension", .meaning = "number of factors of each user and item", .minimum = 1, .maximum = 65536},
      dimension);
  visitor.field({.name = "user_l2", .meaning = "L2 regularisation of users: user_l2/2 · (‖p_u‖² + b_u²)", .minimum = 0},
                user_l2);
  visitor.field({.name = "item_l2", .meaning = "L2 regularisation of items: item_l2/2 · (‖q_i‖² + c_i²)", .minimum = 0},
                item_l2);
  visitor.choice({.name = "l2_per", .meaning = "how often the regularisation is applied"}, l2_per, kPenaltiesPer);
  visitor.field({.name = "biases", .meaning = "give each user and each item a bias"}, biases);
  visitor.variant(
      {.name = "feedback", .meaning = "what the values of the set say; implicit: only optimizer.kind = \"als\""},
      feedback, kFeedbacks,
      {{Feedback::implicit, [this](ConfigVisitor& inner) {
          inner.field({.name = "confidence",
                       .meaning = "α: a value r has the weight 1 + α |r|, and what is not in the set 1",
                       .minimum = 0},
                      confidence);
        }}});
  visitor.require("biases", !biases || feedback == Feedback::explicit_,
                  "feedback = \"implicit\" has no biases; set biases = false");
  visitor.field({.name = "initial_range",
                 .meaning = "initial factors are random within ±initial_range/√dimension; biases start at 0",
                 .minimum = 0,
                 .minimum_excluded = true},
                initial_range);
}

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
