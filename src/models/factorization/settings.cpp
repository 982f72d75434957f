#include "unisono/models/factorization_settings.hpp"

namespace unisono {

void FactorizationSettings::describe(ConfigVisitor& visitor) {
  visitor.field({.name = "dimension", .meaning = "factors of a user and of an item", .minimum = 1, .maximum = 65536},
                dimension);
  visitor.field(
      {.name = "user_l2", .meaning = "penalty l2/2 · (‖p_u‖² + b_u²) with each rating of the user", .minimum = 0},
      user_l2);
  visitor.field(
      {.name = "item_l2", .meaning = "penalty l2/2 · (‖q_i‖² + c_i²) with each rating of the item", .minimum = 0},
      item_l2);
  visitor.field({.name = "biases", .meaning = "whether users and items have a bias each"}, biases);
  visitor.field({.name = "initial_range",
                 .meaning = "factors begin at random in ±range/√dimension, biases at 0",
                 .minimum = 0,
                 .minimum_excluded = true},
                initial_range);
}

}  // namespace unisono
