#include "batch_settings.hpp"

namespace unisono::optim {

void BatchStopping::describe(ConfigVisitor& visitor) {
  visitor.field({.name = "gradient_tolerance",
                 .meaning = "ends when no element of the gradient is larger; 0: never",
                 .minimum = 0},
                gradient_tolerance);
  visitor.field({.name = "function_tolerance",
                 .meaning = "ends when an iteration has changed the loss by no more than this share of it; 0: never. "
                            "Losses are exact to about 1e-8",
                 .minimum = 0,
                 .maximum = 1,
                 .maximum_excluded = true},
                function_tolerance);
  visitor.field({.name = "passes",
                 .meaning = "passes over the training set after which no iteration begins: evaluations of loss and "
                            "gradient, and products with the Hessian; 0: no limit",
                 .minimum = 0},
                passes);
}

void describe_line_search(ConfigVisitor& visitor, LineSearchKind& line_search, std::string_view meaning) {
  visitor.choice({.name = "line_search", .meaning = meaning}, line_search, kLineSearchKinds);
}

}  // namespace unisono::optim
