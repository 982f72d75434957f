#pragma once

#include <string>

#include "unisono/data/dataset.hpp"
#include "unisono/models/model.hpp"

// What shows that vectors of words say little: a small text before the training, and vectors that are all alike after
// it.
namespace unisono::session {

/// The mean cosine of two different rows, over all pairs of rows other than 0 among the first 100,000 (the most
/// frequent words): with unit vectors uᵢ, (|Σᵢ uᵢ|² − n) / (n (n − 1)). NaN for fewer than two such rows. 3·n·width
/// flops.
double mean_cosine(const models::VectorTable& table, View parameters);

/// A warning where the vectors of words have a mean cosine above 0.9: all lie around one direction then, the squared
/// cosine with which is 0.9 on average, and neighbours differ by what is left of their lengths. Else empty, and for
/// fewer than ten words. \param parameters all of θ, in plain memory
std::string warning_on_collapse(const models::Model& model, View parameters);

/// A warning where a model of words is trained on a text of less than 100,000 words; else empty. \throws DataError
std::string warning_on_small_text(const std::string& path, data::Dataset& data);

}  // namespace unisono::session
