#pragma once

#include <array>
#include <string>
#include <vector>

namespace unisono::experiment {

/// Analogies as questions-words.txt has them: lines ": section", then lines of four words.
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

/// Two words, and how alike people find them: a line "word word score", tabs or blanks between.
struct RatedPair {
  std::string first, second;
  double score = 0;
};
/// Lines that begin with '#' are left out. \throws DataError naming file and line
std::vector<RatedPair> read_pairs(const std::string& path);

}  // namespace unisono::experiment
