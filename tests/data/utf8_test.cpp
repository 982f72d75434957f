#include "import/rows.hpp"

#include <catch2/catch.hpp>

using namespace unisono::data;

TEST_CASE("UTF-8 is told from what is none, as Unicode's table 3-7 has it", "[text]") {
  constexpr auto valid = std::string_view::npos;
  for (const char* text : {"", "word", "zwölf", "日本語", "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF", "\xED\x9F\xBF"})
    CHECK(unisono::data::find_invalid_utf8(text) == valid);
  CHECK(unisono::data::find_invalid_utf8("caf\xE9") == 3);           // Latin-1
  CHECK(unisono::data::find_invalid_utf8("a\x80") == 1);             // goes on with nothing
  CHECK(unisono::data::find_invalid_utf8("\xC0\xAF") == 0);          // "/" in two bytes
  CHECK(unisono::data::find_invalid_utf8("\xE0\x80\xAF") == 0);      // in three
  CHECK(unisono::data::find_invalid_utf8("\xED\xA0\x80") == 0);      // a surrogate
  CHECK(unisono::data::find_invalid_utf8("\xF4\x90\x80\x80") == 0);  // beyond U+10FFFF
  CHECK(unisono::data::find_invalid_utf8("ab\xE6\x97") == 2);        // cut off
  CHECK(unisono::data::find_invalid_utf8("\xFF") == 0);
}

TEST_CASE("letters of all alphabets become small", "[text]") {
  unisono::data::Lowercase lowercase;
  CHECK(lowercase("Hello, WORLD 42") == "hello, world 42");
  CHECK(lowercase("ÄÖÜß ΑΒΓ ЖЯ") == "äöüß αβγ жя");
  CHECK(lowercase("日本 \xF0\x90\x90\x80") == "日本 \xF0\x90\x90\xA8");  // Deseret 𐐀 → 𐐨, four bytes each
  CHECK(lowercase("").empty());
}
