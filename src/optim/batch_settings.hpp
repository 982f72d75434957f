#pragma once

#include <cstdint>
#include <string_view>

#include "unisono/base/config.hpp"

// Keys of the methods for the whole training set.

namespace unisono::optim {

enum class LineSearchKind { strong_wolfe, armijo };

inline constexpr Named<LineSearchKind> kLineSearchKinds[] = {
    {LineSearchKind::strong_wolfe, "strong_wolfe",
     "Moré and Thuente's, until the slope is small, too (or Hager and Zhang's approximate conditions hold)"},
    {LineSearchKind::armijo, "armijo", "backtracking until the loss has fallen enough"}};

/// When a method ends.
struct BatchStopping {
  double gradient_tolerance = 1e-5;  ///< of max |∇f|
  double function_tolerance = 0;     ///< of the change of f over an iteration, relative to |f|; 0: off
  std::int64_t passes = 0;           ///< over the set, after which no iteration begins; 0: no limit
  void describe(ConfigVisitor& visitor);
};

void describe_line_search(ConfigVisitor& visitor, LineSearchKind& line_search,
                          std::string_view meaning = "how the length of a step is found");

}  // namespace unisono::optim
