#pragma once

#include <string>

#include "unisono/data/preprocessing.hpp"

namespace unisono::experiment {

/// What makes features or classes of one preprocessing different from those of another one, although both are of the
/// same size: "the scaling", "the categories of column 'colour'", …; empty: nothing. What only new data would meet,
/// such as unknown categories, does not count; neither does rounding.
std::string other_form(const data::Preprocessing& before, const data::Preprocessing& now);

/// The first feature of `now` that has another name in `before`: "feature 2 is 'b', but 'a' there"; empty: none.
std::string other_feature(const data::Preprocessing& before, const data::Preprocessing& now);

}  // namespace unisono::experiment
