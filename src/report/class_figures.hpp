#pragma once

#include <string>
#include <vector>

#include "page.hpp"
#include "unisono/records/confusion.hpp"

namespace unisono::report {

/// The name of a class, or its number where it has none.
std::string class_name(const std::vector<std::string>& names, Index label);

/// Adds a confusion matrix as a drawing, unless it has very many classes, and the figures of each class.
/// \pre matrix.has_cells()
void add_matrix(Section& section, const records::ConfusionMatrix& matrix, const std::vector<std::string>& names);

}  // namespace unisono::report
