#include "import/read_text.hpp"

#include <catch2/catch.hpp>

#include "support.hpp"
#include "unisono/base/errors.hpp"

using namespace unisono::data;
using Catch::Contains;
using unisono::test::message_of;

namespace {

/// Words, each with a blank behind it; "|" where a line ends.
std::string words_in(const std::string& text) {
  unisono::data::WordReader reader(unisono::data::bytes_of(text, "f"));
  std::string words;
  for (;;) {
    switch (reader.next()) {
      case unisono::data::WordReader::Token::word:
        words += std::string(reader.word()) + " ";
        break;
      case unisono::data::WordReader::Token::line_end:
        words += "|";
        break;
      case unisono::data::WordReader::Token::end:
        return words;
    }
  }
}

std::string word_refusal(const std::string& text) {
  return unisono::test::message_of<unisono::DataError>([&] { words_in(text); });
}

}  // namespace

TEST_CASE("words stand between blanks and the ends of lines", "[text]") {
  CHECK(words_in("to be or\nnot  to\tbe") == "to be or |not to be ");
  CHECK(words_in(" a\r\n\r\n\vb\f\n") == "a ||b |");
  CHECK(words_in("a b\rc\r\rd\r\n\r\ne") == "a b |c ||d ||e ");  // lines end with \n, \r\n or \r
  CHECK(words_in("") == "");
  CHECK(words_in(" \t ") == "");
  CHECK(words_in("\xEF\xBB\xBFzwölf") == "zwölf ");  // a byte order mark
}

TEST_CASE("blanks of all alphabets divide words", "[text]") {
  // What Python's str.split() takes for blanks, as gensim's LineSentence does.
  for (const char* blank : {"\x1C", "\x1F", "\u0085", "\u00A0", "\u1680", "\u2000", "\u2003", "\u200A", "\u2028",
                            "\u2029", "\u202F", "\u205F", "\u3000"}) {
    CHECK(words_in(std::string("zwölf") + blank + blank + "é\n" + blank + "b" + blank) == "zwölf é |b ");
  }
  for (const char* letter : {"\u00A1", "\u1681", "\u200B", "\u2010", "\u2060", "\u3001", "\uFEFF"})
    CHECK(words_in(std::string("a") + letter + "b") == std::string("a") + letter + "b ");
  CHECK_THAT(word_refusal("a\xE2\x80"
                          "7"),
             Contains("f:1:2: the byte 0xE2"));
  // Blanks that lie across what is read at a time.
  for (const std::size_t before : {2, 3, 4}) {
    const std::string text(before, 'x');
    std::string many;
    for (int i = 0; i < 200000; ++i) many += text + "\u3000";
    std::string expected;
    for (int i = 0; i < 200000; ++i) expected += text + " ";
    CHECK(words_in(many) == expected);
  }
}

TEST_CASE("a line may be longer than memory, and words lie across what is read at a time", "[text]") {
  std::string text;
  for (int i = 0; i < 200000; ++i) text += "word" + std::to_string(i) + " ";
  const std::string words = words_in(text);
  CHECK(words == text);
}

TEST_CASE("what is no text is named by line and byte", "[text]") {
  CHECK_THAT(word_refusal("one\ntwo caf\xE9 x"), Contains("f:2:8: the byte 0xE9 is not part of a UTF-8 character"));
  CHECK_THAT(word_refusal("\xEF\xBB\xBF\n\n\xFF"), Contains("f:3:1: the byte 0xFF"));
  CHECK_THAT(word_refusal(std::string("a\nb\0c", 5)), Contains("f:2:2: a zero byte"));
  CHECK_THAT(word_refusal("x " + std::string(100000, 'y')), Contains("f:1:3: a word of more than 64 KiB"));
  // Far behind the first reading:
  CHECK_THAT(word_refusal("\n" + std::string(600001, ' ') + "\xFF"), Contains("f:2:600002: the byte 0xFF"));
  CHECK(words_in(std::string(64 << 10, 'y')).size() == (64 << 10) + 1);
}
