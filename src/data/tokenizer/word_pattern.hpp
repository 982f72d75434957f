#pragma once

#include <functional>
#include <memory>
#include <string_view>

namespace unisono::data {

/// Cuts a text into the pieces that GPT-2 encodes by themselves: words and numbers with the blank before them, runs of
/// other marks, blanks. It is GPT-2's regular expression, of OpenAI's encoder.py, matched by PCRE2:
///   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
class WordPattern {
 public:
  /// \throws DataError where this build lacks PCRE2
  WordPattern();
  ~WordPattern();
  WordPattern(const WordPattern&) = delete;
  WordPattern& operator=(const WordPattern&) = delete;

  /// Calls visit(piece) for all pieces, which together are the text. \pre the text is UTF-8
  void cut(std::string_view text, const std::function<void(std::string_view)>& visit) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace unisono::data
