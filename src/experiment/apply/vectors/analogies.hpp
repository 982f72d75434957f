#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "unisono/models/model.hpp"

namespace unisono::experiment {

/// given[0] is to given[1] as given[2] is to `expected`: rows of a matrix.
struct Analogy {
  std::array<std::int32_t, 3> given{};
  std::int32_t expected = 0;
};

/// Vectors of length 1, or 0. [count, width] row-major
struct UnitRows {
  Index count = 0, width = 0;
  std::vector<float> values;
  View row(Index i) const {
    return View(values).subspan(static_cast<std::size_t>(i * width), static_cast<std::size_t>(width));
  }
};

/// \param rows of the table, in the order in which the matrix is to have them
UnitRows unit_rows(const models::VectorTable& table, View parameters, std::span<const std::int32_t> rows);

/// The word that is nearest to b − a + c, none of the three itself (3CosAdd):
///     argmax_w  v_w · v_b − v_w · v_a + v_w · v_c        v: unit vectors; of equals the first
///   Mikolov, Yih & Zweig, NAACL 2013; Levy & Goldberg, CoNLL 2014.
/// Products of all words with each word that is given anywhere are made once, block by block of the words: 2·V·D flops
/// for each of these, and 3·V additions a question. Each product is the same bits however the questions are shared out.
std::vector<std::int32_t> solve_analogies(const UnitRows& words, std::span<const Analogy> questions);

}  // namespace unisono::experiment
