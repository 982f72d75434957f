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

void check(const std::string& text, unisono::data::Lowercase& lowercase) {
  const std::vector<std::string> tokens = read(text);
  if (!tokens.empty() && tokens.back().starts_with("fuzzed:")) return;
  std::size_t at = text.starts_with("\xEF\xBB\xBF") ? 3 : 0;
  for (const std::string& token : tokens) {
    at = text.find_first_not_of(" \t\r\f\v", at);
    if (at == std::string::npos || text.compare(at, token.size(), token) != 0) std::abort();
    at += token.size();
    if (unisono::data::find_invalid_utf8(token) != std::string::npos ||
        unisono::data::find_invalid_utf8(lowercase(token)) != std::string::npos)
      std::abort();
  }
  if (text.find_first_not_of(" \t\r\f\v", at) != std::string::npos) std::abort();  // something was left out
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
