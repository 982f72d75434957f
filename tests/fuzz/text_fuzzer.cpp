// The reader of words on any bytes: words of UTF-8 without blanks, which together with blanks are all of the text; or a
// DataError that says where; wherever the text lies in what is read at a time.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "import/read_text.hpp"
#include "import/rows.hpp"
#include "unisono/base/errors.hpp"

namespace {

using namespace unisono;
using namespace unisono::data;

/// Words, and "\n" where a line ends; in the end the message where the text is refused.
std::vector<std::string> read(const std::string& text) {
  std::vector<std::string> tokens;
  try {
    unisono::data::WordReader reader(unisono::data::bytes_of(text, "fuzzed"));
    for (auto token = reader.next(); token != unisono::data::WordReader::Token::end; token = reader.next())
      tokens.emplace_back(token == unisono::data::WordReader::Token::word ? reader.word() : "\n");
  } catch (const unisono::DataError& error) {
    tokens.emplace_back(error.what());
    if (!tokens.back().starts_with("fuzzed:")) std::abort();  // says no place
  }
  return tokens;
}

/// Bytes of the blank at a place; 0: there is none.
std::size_t blank_at(const std::string& text, std::size_t at) {
  static const std::vector<std::string> blanks = {" ",      "\t",     "\f",     "\v",     "\x1C",   "\x1D",   "\x1E",
                                                  "\x1F",   "\u0085", "\u00A0", "\u1680", "\u2000", "\u2001", "\u2002",
                                                  "\u2003", "\u2004", "\u2005", "\u2006", "\u2007", "\u2008", "\u2009",
                                                  "\u200A", "\u2028", "\u2029", "\u202F", "\u205F", "\u3000"};
  for (const std::string& blank : blanks) {
    if (text.compare(at, blank.size(), blank) == 0) return blank.size();
  }
  return 0;
}

std::size_t behind_blanks(const std::string& text, std::size_t at) {
  while (at < text.size() && blank_at(text, at) > 0) at += blank_at(text, at);
  return at;
}

/// Behind the end of a line; the same place: there is none.
std::size_t behind_line_end(const std::string& text, std::size_t at) {
  if (text.compare(at, 2, "\r\n") == 0) return at + 2;
  return at < text.size() && (text[at] == '\r' || text[at] == '\n') ? at + 1 : at;
}

void check(const std::string& text, unisono::data::Lowercase& lowercase) {
  const std::vector<std::string> tokens = read(text);
  if (!tokens.empty() && tokens.back().starts_with("fuzzed:")) return;
  std::size_t at = text.starts_with("\xEF\xBB\xBF") ? 3 : 0;
  for (const std::string& token : tokens) {
    at = behind_blanks(text, at);
    if (token == "\n") {
      if (behind_line_end(text, at) == at) std::abort();
      at = behind_line_end(text, at);
      continue;
    }
    if (text.compare(at, token.size(), token) != 0) std::abort();
    for (std::size_t i = 0; i < token.size(); ++i) {
      if (blank_at(token, i) > 0) std::abort();
    }
    at += token.size();
    if (unisono::data::find_invalid_utf8(token) != std::string::npos ||
        unisono::data::find_invalid_utf8(lowercase(token)) != std::string::npos)
      std::abort();
    const std::string_view bare = unisono::data::without_punctuation(token);
    if (unisono::data::find_invalid_utf8(bare) != std::string::npos ||
        unisono::data::without_punctuation(bare) != bare || (!bare.empty() && token.find(bare) == std::string::npos))
      std::abort();
  }
  if (behind_blanks(text, at) != text.size()) std::abort();  // something was left out
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static unisono::data::Lowercase lowercase;
  const std::string text(reinterpret_cast<const char*>(data), size);
  check(text, lowercase);
  if (size % 16 > 0) return 0;  // the rest takes its time
  // Blanks in front move words across the ends of what is read at a time.
  const std::size_t moved = (256U << 10) - std::min<std::size_t>(size / 2, 256U << 10);
  check(std::string(moved, ' ') + text, lowercase);
  return 0;
}
