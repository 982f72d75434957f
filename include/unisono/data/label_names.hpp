#pragma once

#include <string>
#include <vector>

#include "unisono/tensor/allocator.hpp"

// Sets whose examples may have several labels each: a set's attribute `label_names` names the columns of its targets
// [n, K], which are 1 where an example has the label and otherwise 0.
namespace unisono::data {

/// What stands between the labels of an example where a text lists them: "cat;dog".
inline constexpr char kLabelSeparator = ';';

/// Why these cannot be the names of labels: two are the same; or one is empty, not UTF-8, or has a separator or the end
/// of a line in it. Empty: they can.
std::string problem_of_labels(const std::vector<std::string>& names);

/// The names of the labels whose values are above ½, with separators between them. \param values [K]
std::string join_labels(View values, const std::vector<std::string>& names);

}  // namespace unisono::data
