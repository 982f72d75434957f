#pragma once

#include <array>
#include <string>
#include <vector>

// Files for testing word vectors: analogies and word similarities.

namespace unisono::apply {

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
