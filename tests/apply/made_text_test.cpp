#include "generate/made_text.hpp"

#include <catch2/catch.hpp>

#include "generate/window.hpp"
#include "small_sentencepiece.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::apply {
namespace {

using Tokens = std::vector<std::int32_t>;

/// What `take` gives after each of a text's bytes, and at the end.
std::vector<std::string> pieces(const std::string& text, const std::vector<std::string>& stops = {}) {
  const auto tokenizer = data::byte_tokenizer(/*end_of_text=*/false);
  MadeText made(*tokenizer, {65}, stops);
  std::vector<std::string> all;
  for (const char byte : text) {
    const bool ends = made.add(static_cast<unsigned char>(byte));
    all.push_back(made.take());
    if (ends) return all;
  }
  made.finish();
  all.push_back(made.take());
  return all;
}

}  // namespace

TEST_CASE("characters are given when they are whole", "[made_text]") {
  CHECK(pieces("a\xC3\xA9z") == std::vector<std::string>{"a", "", "\xC3\xA9", "z", ""});
  CHECK(pieces("\xF0\x9F\x98\x80") == std::vector<std::string>{"", "", "", "\xF0\x9F\x98\x80", ""});
  CHECK(pieces("\xE2\x82") == std::vector<std::string>{"", "", "\xE2\x82"});
  CHECK(pieces("\xE2z") == std::vector<std::string>{"", "\xE2z", ""});  // no UTF-8: nothing to wait for
  CHECK(pieces("\x80\x80\x80\x80") == std::vector<std::string>{"\x80", "\x80", "\x80", "\x80", ""});
}

TEST_CASE("bytes that later tokens may change are unfinished", "[made_text]") {
  CHECK(finished_bytes("") == 0);
  CHECK(finished_bytes("ab") == 2);
  CHECK(finished_bytes("a\xF0\x9F\x98") == 1);
  CHECK(finished_bytes("a\xEF\xBF\xBD") == 1);
  CHECK(finished_bytes("a\xEF\xBF\xBD b") == 6);
}

TEST_CASE("a text ends before a stop, and what may become one is held back", "[made_text]") {
  CHECK(pieces("abxyc", {"xy"}) == std::vector<std::string>{"a", "b", "", ""});
  CHECK(pieces("axbxy", {"xy"}) == std::vector<std::string>{"a", "", "xb", "", ""});
  CHECK(pieces("ax", {"xy"}) == std::vector<std::string>{"a", "", "x"});
  CHECK(pieces("xxxy", {"xxy"}) == std::vector<std::string>{"", "", "x", ""});
  CHECK(pieces("abcd", {"cd", "bcx"}) == std::vector<std::string>{"a", "", "", "b"});
}

TEST_CASE("a stop is found where several tokens make it", "[made_text]") {
  const auto tokenizer = data::byte_tokenizer(/*end_of_text=*/true);
  const std::vector<std::string> stops = {"\n\n"};
  MadeText made(*tokenizer, {}, stops);
  CHECK_FALSE(made.add('a'));
  CHECK_FALSE(made.add('\n'));
  CHECK(made.text() == "a\n");
  CHECK(made.add('\n'));
  CHECK(made.text() == "a");
  CHECK(made.tokens() == Tokens{'a', '\n', '\n'});
}

TEST_CASE("the pieces of a SentencePiece model keep their blanks", "[made_text]") {
  std::unique_ptr<data::Tokenizer> tokenizer;
  try {
    tokenizer = data::make_tokenizer({.kind = data::TokenizerKind::sentencepiece,
                                      .model = data::small_model({"\u2581", "a", "b", "\u2581ab", "ab"})},
                                     "here");
  } catch (const DataError&) {
    return;  // a build without SentencePiece
  }
  const std::vector<std::string> stops;
  MadeText made(*tokenizer, tokenizer->encode("ab"), stops);
  std::string text;
  for (const std::int32_t token : Tokens{6, 4, 6, 2}) {  // " ab", "a", " ab" and the end of the text
    CHECK_FALSE(made.add(token));
    text += made.take();
  }
  CHECK(text == " aba ab");
  CHECK(made.text() == text);
}

TEST_CASE("where the context is full, the window keeps its last half", "[window]") {
  const auto pending = [](const Window& window) { return Tokens(window.pending().begin(), window.pending().end()); };
  Window window({1, 2, 3}, 4);
  CHECK(pending(window) == Tokens{1, 2, 3});
  window.computed();
  window.append(4);
  CHECK(window.position() == 3);
  CHECK(pending(window) == Tokens{4});
  window.computed();
  window.append(5);
  CHECK(window.position() == 0);
  CHECK(pending(window) == Tokens{4, 5});
  CHECK(window.tokens() == Tokens{1, 2, 3, 4, 5});
}

TEST_CASE("of a prompt longer than the context the end is seen", "[window]") {
  Window window({1, 2, 3, 4, 5}, 3);
  CHECK(Tokens(window.pending().begin(), window.pending().end()) == Tokens{3, 4, 5});
  Window shortest({7, 8}, 1);
  CHECK(Tokens(shortest.pending().begin(), shortest.pending().end()) == Tokens{8});
  shortest.computed();
  shortest.append(9);
  CHECK(Tokens(shortest.pending().begin(), shortest.pending().end()) == Tokens{9});
}

}  // namespace unisono::apply
