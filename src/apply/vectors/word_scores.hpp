#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "unisono/models/model.hpp"

namespace unisono::apply {

/// A question "given[0] is to given[1] as given[2] is to …" and its expected answer, as rows of a matrix.
struct Analogy {
  std::array<std::int32_t, 3> given{};
  std::int32_t expected = 0;
};

/// A matrix [count, width], row-major, with rows of length 1 (or 0, if the vector was 0).
struct UnitVectors {
  Index count = 0, width = 0;
  std::vector<float> values;
  View row(Index i) const {
    return View(values).subspan(static_cast<std::size_t>(i * width), static_cast<std::size_t>(width));
  }
};

/// \param rows rows of the table, in the order of the matrix's rows
UnitVectors unit_rows(const models::VectorTable& table, View parameters, std::span<const std::int32_t> rows);

/// The word that is nearest to b − a + c, none of the three itself (3CosAdd):
///     argmax_w  v_w · v_b − v_w · v_a + v_w · v_c        v: unit vectors; of equals the first
///   Mikolov, Yih & Zweig, NAACL 2013; Levy & Goldberg, CoNLL 2014.
/// The products of all V words with each word that any question gives are computed once, block by block: 2·V·D flops
/// for each given word, and 3·V additions per question. The products' bits do not depend on how questions are divided
/// among ranks.
std::vector<std::int32_t> solve_analogies(const UnitVectors& words, std::span<const Analogy> questions);

/// Spearman's ρ: Pearson's correlation of the ranks; equal values get their mean rank. NaN if a or b is constant.
double spearman(const std::vector<double>& a, const std::vector<double>& b);

// Files for testing word vectors: analogies and word similarities.

/// Analogy questions in the format of questions-words.txt: lines ": section", each followed by lines of four words.
struct QuestionFile {
  struct Question {
    std::array<std::string, 4> words;
    std::size_t section = 0;
  };
  std::vector<std::string> sections;
  std::vector<Question> questions;
};
/// \throws DataError naming file and line
QuestionFile read_questions(const std::string& path);

/// Two words and their similarity as rated by people: a line "word word score", separated by tabs or blanks.
struct RatedPair {
  std::string first, second;
  double score = 0;
};
/// Reads such a file; lines that begin with '#' are skipped. \throws DataError naming file and line
std::vector<RatedPair> read_pairs(const std::string& path);

}  // namespace unisono::apply
