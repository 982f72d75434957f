// Texts as tokens and back. What GPT-2's own files give is compared by scripts/check-gpt2-tokenizer.
#include <catch2/catch.hpp>

#include <numeric>
#include <thread>

#include "small_sentencepiece.hpp"
#include "support.hpp"
#include "tokenizer/byte_pairs.hpp"
#include "tokenizer/utf8.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"
#include "unisono/data/preprocessing.hpp"
#include "unisono/data/tokenizer.hpp"

using namespace unisono;
using namespace unisono::data;
using namespace unisono::test;
using Catch::Matchers::Contains;
using Tokens = std::vector<std::int32_t>;

namespace {

/// GPT-2's spelling of a byte, from its definition.
std::string spelled(int byte) {
  std::string text;
  int next = 256;
  for (int b = 0; b <= byte; ++b) {
    const bool prints = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
    const int code = prints ? b : next++;
    if (b == byte) append_character(text, static_cast<char32_t>(code));
  }
  return text;
}

/// All bytes, then what the merges make, then the end of a text.
TokenizerParts small_gpt2(const std::vector<std::string>& merges) {
  TokenizerParts parts{.kind = TokenizerKind::gpt2, .merges = merges};
  for (int byte = 0; byte < 256; ++byte) parts.vocabulary.push_back(spelled(byte));
  for (std::string merge : merges) {
    merge.erase(merge.find(' '), 1);
    parts.vocabulary.push_back(merge);
  }
  parts.vocabulary.emplace_back("<|endoftext|>");
  return parts;
}

/// Whether this build has the tokenizer 'gpt2'.
bool has_gpt2() {
  const std::string refusal = message_of<DataError>([] { make_tokenizer(small_gpt2({}), "here"); });
  return refusal.find("built without it") == std::string::npos;
}

Index bytes_of(const Tokenizer& tokenizer, const Tokens& tokens) {
  return std::accumulate(tokens.begin(), tokens.end(), Index{0},
                         [&](Index sum, std::int32_t token) { return sum + tokenizer.token_bytes(token); });
}

/// What every tokenizer promises. \pre its encoding keeps all of the text
void check_promises(const Tokenizer& tokenizer, const std::string& text) {
  const Tokens tokens = tokenizer.encode(text);
  CHECK(tokenizer.decode(tokens) == text);
  CHECK(bytes_of(tokenizer, tokens) == std::ssize(text));
  for (const std::int32_t token : tokens) {
    CHECK(token >= 0);
    CHECK(token < tokenizer.vocabulary());
    CHECK(token != tokenizer.end_of_text());
  }
  for (std::size_t end = 0; end <= text.size(); end += 1 + text.size() / 17) {
    const std::size_t first = tokenizer.separable(std::string_view(text).substr(0, end));
    REQUIRE(first <= end);
    Tokens parts = tokenizer.encode(text.substr(0, first));
    const Tokens rest = tokenizer.encode(text.substr(first));
    parts.insert(parts.end(), rest.begin(), rest.end());
    CHECK(parts == tokens);
  }
  const auto again = make_tokenizer(*tokenizer.parts(), "here");
  CHECK(again->encode(text) == tokens);
  CHECK_THROWS_AS(tokenizer.decode(Tokens{static_cast<std::int32_t>(tokenizer.vocabulary())}), DataError);
  CHECK_THROWS_AS(tokenizer.token_bytes(-1), DataError);
}

const std::string kMixed = "It's 12 o'clock,\n\n  Größe\t東京 \xF0\x9F\x98\x80!  don't_stop(x) == 3.5;\u00a0\u2003end ";

}  // namespace

TEST_CASE("bytes are their own tokens", "[tokenizer]") {
  const auto tokenizer = byte_tokenizer(false);
  CHECK(tokenizer->encode("a\xFF") == Tokens{'a', 255});
  CHECK(tokenizer->vocabulary() == 256);
  CHECK(tokenizer->end_of_text() == -1);
  check_promises(*tokenizer, kMixed + std::string("\0\xFE", 2));
  const auto with_end = byte_tokenizer(true);
  CHECK(with_end->vocabulary() == 257);
  CHECK(with_end->end_of_text() == 256);
  CHECK(with_end->decode(Tokens{'a', 256, 'b'}) == "ab");
  check_promises(*with_end, kMixed);
}

TEST_CASE("characters are numbered by their code points", "[tokenizer]") {
  const auto tokenizer = character_tokenizer("cab\né", false);
  CHECK(tokenizer->vocabulary() == 5);
  CHECK(tokenizer->encode("\nabcé") == Tokens{0, 1, 2, 3, 4});
  CHECK(tokenizer->token_bytes(4) == 2);
  check_promises(*character_tokenizer(kMixed, true), kMixed);
  CHECK(character_tokenizer(kMixed, true)->end_of_text() == character_tokenizer(kMixed, false)->vocabulary());
  CHECK_THAT(message_of<DataError>([&] { tokenizer->encode("abß"); }), Contains("'ß' (U+00DF) at byte 3"));
  CHECK_THAT(message_of<DataError>([&] { tokenizer->encode("ab\xC3"); }), Contains("byte 3 of the text, 0xC3"));
  CHECK_THROWS_AS(character_tokenizer("", false), DataError);
}

TEST_CASE("neighbours of the lowest rank merge first, the leftmost of several", "[tokenizer]") {
  MergeTable merges(3);
  merges.add(1, 1, {.rank = 1, .token = 10});
  merges.add(1, 2, {.rank = 0, .token = 11});
  merges.add(10, 1, {.rank = 2, .token = 12});
  const auto merged = [&](Tokens tokens) {
    merge_pairs(merges, tokens);
    return tokens;
  };
  CHECK(merged({1, 1, 2}) == Tokens{1, 11});  // rank 0 before rank 1, though it is further right
  CHECK(merged({1, 1, 1}) == Tokens{12});
  CHECK(merged({1, 1, 1, 1}) == Tokens{10, 10});
  CHECK(merged({}).empty());
  CHECK(merged({3}) == Tokens{3});
}

TEST_CASE("long runs merge as short ones do", "[tokenizer]") {
  // A run is cut where it cannot merge (token 0), so that its parts are short by themselves.
  MergeTable merges(200);
  RandomStream random(3, Purpose::test);
  std::int32_t next = 5;
  for (std::int32_t rank = 0; rank < 200; ++rank) {
    const auto of = [&] { return 1 + static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(next - 1))); };
    merges.add(of(), of(), {.rank = rank, .token = next});
    ++next;
  }
  Tokens run, expected;
  for (int part = 0; part < 60; ++part) {
    Tokens one{0};
    for (int i = 0; i < 40; ++i) one.push_back(1 + static_cast<std::int32_t>(random.below(4)));
    run.insert(run.end(), one.begin(), one.end());
    merge_pairs(merges, one);
    expected.insert(expected.end(), one.begin(), one.end());
  }
  merge_pairs(merges, run);
  CHECK(run == expected);
  CHECK(run.size() < 60 * 30);  // there was something to merge
}

TEST_CASE("GPT-2's pieces and merges", "[tokenizer]") {
  if (!has_gpt2()) return;
  const auto tokenizer = make_tokenizer(small_gpt2({"a b", "ab c", "Ġ ab", "1 2"}), "here");
  CHECK(tokenizer->vocabulary() == 261);
  CHECK(tokenizer->end_of_text() == 260);
  CHECK(tokenizer->decode(Tokens{260}).empty());
  CHECK(tokenizer->encode("abc") == Tokens{257});
  CHECK(tokenizer->encode(" ab") == Tokens{258});
  CHECK(tokenizer->encode("  ab").size() == 2);  // one blank stands by itself, the other before the word
  CHECK(tokenizer->encode("b12a").size() == 3);  // letters and numbers are different pieces
  CHECK(tokenizer->encode("1a2").size() == 3);
  check_promises(*tokenizer, kMixed);
  check_promises(*tokenizer, std::string(700, 'a') + "bc abab " + std::string(300, ' ') + "x");
  CHECK_THROWS_AS(tokenizer->encode("\xFF"), DataError);
}

TEST_CASE("files of GPT-2's kind are read or refused", "[tokenizer]") {
  if (!has_gpt2()) return;
  const TempDir folder;
  const TokenizerParts parts = small_gpt2({"a b"});
  std::string json;
  for (std::size_t i = 0; i < parts.vocabulary.size(); ++i) {
    const std::string& token = parts.vocabulary[i];
    const std::string spelling = token == "\"" || token == "\\" ? "\\" + token : token;
    json += (i > 0 ? ", \"" : "{\"") + spelling + "\": " + std::to_string(i);
  }
  write_file(folder / "v.json", json + "}");
  write_file(folder / "m.txt", "#version: 0.2\na b\n");
  CHECK(*read_gpt2_tokenizer(folder / "v.json", folder / "m.txt")->parts() == parts);

  const auto refusal = [&](const std::string& vocabulary, const std::string& merges) {
    write_file(folder / "w.json", vocabulary);
    write_file(folder / "n.txt", merges);
    return message_of<DataError>([&] { read_gpt2_tokenizer(folder / "w.json", folder / "n.txt"); });
  };
  CHECK_THAT(refusal(json + "}", "a b\na c\n"), Contains("merge 2, 'a c': 'ac' is not in the vocabulary"));
  CHECK_THAT(refusal(json + "}", "a\n"), Contains("merge 1, 'a': must be two tokens"));
  CHECK_THAT(refusal(json + ", \"x y\": 7}", ""), Contains("each once"));
  CHECK_THAT(refusal("{\"a\": 0}", ""), Contains("has no token"));
  CHECK_THAT(refusal("[1]", ""), Contains("must be a JSON object"));
  CHECK_THAT(refusal("{", ""), Contains("in JSON"));
}

TEST_CASE("a tokenizer is used by several threads", "[tokenizer]") {
  if (!has_gpt2()) return;
  const auto tokenizer = make_tokenizer(small_gpt2({"a b", "ab c"}), "here");
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "abc ab" + std::to_string(i % 37);
  const Tokens expected = tokenizer->encode(text);
  std::vector<Tokens> found(4);
  std::vector<std::thread> threads;
  for (Tokens& tokens : found) threads.emplace_back([&] { tokens = tokenizer->encode(text); });
  for (std::thread& thread : threads) thread.join();
  for (const Tokens& tokens : found) CHECK(tokens == expected);
}

TEST_CASE("a checkpoint's text keeps the tokenizer", "[tokenizer]") {
  for (const TokenizerParts& parts :
       {TokenizerParts{.kind = TokenizerKind::bytes, .end_of_text = true},
        TokenizerParts{.kind = TokenizerKind::characters, .vocabulary = {"\n", "a", "é"}}, small_gpt2({"a b"}),
        TokenizerParts{.kind = TokenizerKind::sentencepiece, .model = std::string("\0\x7F\xFFz", 4)}}) {
    Preprocessing preprocessing{.tokenizer = std::make_shared<const TokenizerParts>(parts)};
    const Preprocessing read = preprocessing_from_json(to_json(preprocessing), "here");
    REQUIRE(read.tokenizer != nullptr);
    CHECK(*read.tokenizer == parts);
  }
}

TEST_CASE("pieces of a SentencePiece model", "[tokenizer]") {
  const TempDir folder;
  write_file(folder / "m.model", small_model({"\u2581", "a", "b", "\u2581ab", "ab"}));
  std::unique_ptr<Tokenizer> tokenizer;
  const std::string refusal =
      message_of<DataError>([&] { tokenizer = read_sentencepiece_tokenizer(folder / "m.model"); });
  if (refusal.find("built without it") != std::string::npos) return;
  REQUIRE(tokenizer != nullptr);
  CHECK(tokenizer->vocabulary() == 8);
  CHECK(tokenizer->end_of_text() == 2);
  CHECK(tokenizer->encode("ab abb") == Tokens{6, 6, 5});
  CHECK(tokenizer->decode(Tokens{6, 6, 5}) == "ab abb");
  CHECK(tokenizer->token_bytes(6) == 3);
  CHECK(tokenizer->token_bytes(2) == 0);
  CHECK(make_tokenizer(*tokenizer->parts(), "here")->encode("ba") == tokenizer->encode("ba"));
  CHECK_THROWS_AS(tokenizer->encode("\xFF"), DataError);
  CHECK_THROWS_AS(tokenizer->decode(Tokens{8}), DataError);
}

TEST_CASE("what is no SentencePiece model is refused", "[tokenizer]") {
  const TempDir folder;
  write_file(folder / "m.model", "nothing");
  CHECK_THROWS_AS(read_sentencepiece_tokenizer(folder / "m.model"), DataError);
}
