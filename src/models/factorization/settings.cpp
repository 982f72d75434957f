#include "unisono/models/factorization_settings.hpp"

namespace unisono::models {

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

}  // namespace unisono::models
