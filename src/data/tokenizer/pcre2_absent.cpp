// Compiled in place of pcre2/ where PCRE2 is not found.
#include "tokenizer/word_pattern.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {

struct WordPattern::Compiled {};

WordPattern::WordPattern() {
  throw DataError(
      "the tokenizer 'gpt2' needs PCRE2, and this unisono was built without it; install libpcre2-dev and build again");
}

WordPattern::~WordPattern() = default;

void WordPattern::cut(std::string_view, const std::function<void(std::string_view)>&) const {}

}  // namespace unisono::data
