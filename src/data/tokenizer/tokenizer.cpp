#include "unisono/data/tokenizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <unordered_map>

#include "import/rows.hpp"
#include "set/external.hpp"
#include "tokenizer/kinds.hpp"
#include "tokenizer/utf8.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

constexpr std::int32_t kByteTokens = 256;

class ByteTokenizer final : public Tokenizer {
 public:
  explicit ByteTokenizer(TokenizerParts parts) : Tokenizer(std::move(parts)), ends_(this->parts()->end_of_text) {}

  Index vocabulary() const override { return kByteTokens + (ends_ ? 1 : 0); }
  std::int32_t end_of_text() const override { return ends_ ? kByteTokens : -1; }
  std::size_t separable(std::string_view text) const override { return text.size(); }

  std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> tokens(text.size());
    std::ranges::transform(text, tokens.begin(), [](char byte) { return static_cast<unsigned char>(byte); });
    return tokens;
  }

  std::string decode(std::span<const std::int32_t> tokens) const override {
    std::string text;
    for (const std::int32_t token : tokens) {
      if (token_bytes(token) > 0) text += static_cast<char>(token);
    }
    return text;
  }

  Index token_bytes(std::int32_t token) const override {
    require_token(token, vocabulary());
    return token < kByteTokens ? 1 : 0;
  }

 private:
  bool ends_;
};

class CharacterTokenizer final : public Tokenizer {
 public:
  CharacterTokenizer(TokenizerParts parts, const std::string& where) : Tokenizer(std::move(parts)) {
    for (const std::string& character : characters()) add(character, where);
    if (characters().empty()) throw DataError(where + ": the tokenizer's vocabulary has no characters");
  }

  Index vocabulary() const override { return std::ssize(characters()) + (parts()->end_of_text ? 1 : 0); }
  std::int32_t end_of_text() const override {
    return parts()->end_of_text ? static_cast<std::int32_t>(characters().size()) : -1;
  }
  std::size_t separable(std::string_view text) const override { return whole_characters(text); }

  std::vector<std::int32_t> encode(std::string_view text) const override {
    require_utf8(text, "the tokenizer 'characters'");
    std::vector<std::int32_t> tokens;
    tokens.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
      const Character character = character_at(text, at);
      const std::int32_t token = number_of(character.code);
      if (token < 0) refuse(text, at, character);
      tokens.push_back(token);
      at += character.bytes;
    }
    return tokens;
  }

  std::string decode(std::span<const std::int32_t> tokens) const override {
    std::string text;
    for (const std::int32_t token : tokens) {
      if (token_bytes(token) > 0) text += characters()[static_cast<std::size_t>(token)];
    }
    return text;
  }

  Index token_bytes(std::int32_t token) const override {
    require_token(token, vocabulary());
    return token == end_of_text() ? 0 : std::ssize(characters()[static_cast<std::size_t>(token)]);
  }

 private:
  const std::vector<std::string>& characters() const { return parts()->vocabulary; }

  void add(const std::string& character, const std::string& where) {
    const bool is_one = !character.empty() && find_invalid_utf8(character) == std::string_view::npos &&
                        character_at(character, 0).bytes == character.size();
    const auto number = static_cast<std::int32_t>(numbers_.size());
    if (!is_one || !numbers_.emplace(character_at(character, 0).code, number).second) {
      throw DataError(fmt::format(
          "{}: entry {} of the tokenizer's vocabulary is not a single character, or occurs twice", where, number));
    }
    const char32_t code = character_at(character, 0).code;
    if (code < ascii_.size()) ascii_[code] = number;
  }

  std::int32_t number_of(char32_t code) const {
    if (code < ascii_.size()) return ascii_[code];
    const auto found = numbers_.find(code);
    return found == numbers_.end() ? -1 : found->second;
  }

  [[noreturn]] void refuse(std::string_view text, std::size_t at, const Character& character) const {
    throw DataError(fmt::format(
        "the character '{}' (U+{:04X}) at byte {} is none of the {} that the tokenizer knows; leave it out, "
        "or import the training text with it",
        text.substr(at, character.bytes), static_cast<std::uint32_t>(character.code), at + 1, characters().size()));
  }

  static constexpr std::size_t kAscii = 128;
  static constexpr std::array<std::int32_t, kAscii> none() {
    std::array<std::int32_t, kAscii> numbers{};
    for (std::int32_t& number : numbers) number = -1;
    return numbers;
  }

  std::array<std::int32_t, kAscii> ascii_ = none();
  std::unordered_map<char32_t, std::int32_t> numbers_;
};

}  // namespace

void require_utf8(std::string_view text, std::string_view what) {
  const std::size_t invalid = find_invalid_utf8(text);
  if (invalid == std::string_view::npos) return;
  throw DataError(fmt::format("byte {} of the text, 0x{:02X}, is not part of a UTF-8 character, and {} needs UTF-8",
                              invalid + 1, static_cast<unsigned char>(text[invalid]), what));
}

void require_token(std::int32_t token, Index vocabulary) {
  if (token >= 0 && token < vocabulary) return;
  throw DataError(fmt::format("there is no token {}: the tokenizer has {} tokens, numbered from 0", token, vocabulary));
}

std::unique_ptr<Tokenizer> byte_tokenizer(bool end_of_text) {
  return std::make_unique<ByteTokenizer>(TokenizerParts{.kind = TokenizerKind::bytes, .end_of_text = end_of_text});
}

std::unique_ptr<Tokenizer> character_tokenizer(std::string_view text, bool end_of_text) {
  require_utf8(text, "the tokenizer 'characters'");
  std::set<char32_t> codes;
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    codes.insert(character.code);
    at += character.bytes;
  }
  TokenizerParts parts{.kind = TokenizerKind::characters, .end_of_text = end_of_text};
  for (const char32_t code : codes) append_character(parts.vocabulary.emplace_back(), code);
  return std::make_unique<CharacterTokenizer>(std::move(parts), "the text");
}

std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerParts& parts, const std::string& where) {
  switch (parts.kind) {
    case TokenizerKind::bytes:
      return std::make_unique<ByteTokenizer>(parts);
    case TokenizerKind::characters:
      return std::make_unique<CharacterTokenizer>(parts, where);
    case TokenizerKind::gpt2:
      return make_gpt2_tokenizer(parts, where);
    case TokenizerKind::sentencepiece:
      break;
  }
  return make_sentencepiece_tokenizer(parts, where);
}

std::unique_ptr<Tokenizer> read_sentencepiece_tokenizer(const std::string& path) {
  const auto bytes = read_bytes(path);
  return make_sentencepiece_tokenizer({.kind = TokenizerKind::sentencepiece, .model = {bytes.begin(), bytes.end()}},
                                      path);
}

std::unique_ptr<Tokenizer> tokenizer_of_set(const std::string& path) {
  const auto parts = read_tokenizer(open_set_file(path, false));
  if (parts == nullptr) {
    throw DataError(path + ": holds no tokenizer; use a set that 'unisono data import tokens' made");
  }
  return make_tokenizer(*parts, path);
}

std::string unknown_tokens_text(const std::string& set, const std::string& model) {
  return fmt::format("{}: holds no tokenizer, so it cannot be checked that its tokens are those of {}", set, model);
}

TokenBytes token_bytes_of(const std::shared_ptr<const TokenizerParts>& parts) {
  if (!parts) return nullptr;
  const auto tokenizer = make_tokenizer(*parts, "the tokenizer");
  auto bytes = std::make_shared<std::vector<std::uint16_t>>();
  for (Index token = 0; token < tokenizer->vocabulary(); ++token) {
    bytes->push_back(static_cast<std::uint16_t>(tokenizer->token_bytes(static_cast<std::int32_t>(token))));
  }
  return bytes;
}

}  // namespace unisono::data
