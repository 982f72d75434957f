#pragma once

#include "unisono/tensor/layout.hpp"

namespace unisono::data {

/// Things 0 … n−1 dealt round to parts, as cards are: thing i goes to part i mod parts, and is number i / parts there.
/// Parts are as equal as can be, also where things that belong together have numbers near each other.
struct Deal {
  Index things = 0, parts = 1;

  Index size(Index part) const { return (things - part + parts - 1) / parts; }
  Index largest() const { return size(0); }
};

}  // namespace unisono::data
