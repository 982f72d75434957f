#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "import/rows.hpp"
#include "tokenizer/byte_pairs.hpp"
#include "tokenizer/kinds.hpp"
#include "tokenizer/utf8.hpp"
#include "tokenizer/word_pattern.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/nesting.hpp"

namespace unisono::data {
namespace {

constexpr std::string_view kEndOfText = "<|endoftext|>";
constexpr std::size_t kBytes = 256;

/// The character with which GPT-2's files spell each byte: itself where it can be printed, else one from U+0100 on.
std::array<char32_t, kBytes> spellings() {
  std::array<char32_t, kBytes> characters{};
  char32_t next = 0x100;
  for (char32_t byte = 0; byte < kBytes; ++byte) {
    const bool prints = (byte > ' ' && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
    characters[byte] = prints ? byte : next++;
  }
  return characters;
}

std::string spelling_of(std::size_t byte) {
  std::string text;
  append_character(text, spellings()[byte]);
  return text;
}

/// The bytes that a token is spelled for; the token itself where it is not spelled so, as some special ones are.
std::string bytes_of_token(const std::string& token, const std::unordered_map<char32_t, char>& byte_of) {
  std::string bytes;
  for (std::size_t at = 0; at < token.size();) {
    const Character character = character_at(token, at);
    const auto found = byte_of.find(character.code);
    if (found == byte_of.end()) return token;
    bytes += found->second;
    at += character.bytes;
  }
  return bytes;
}

class Gpt2Tokenizer final : public Tokenizer {
 public:
  Gpt2Tokenizer(TokenizerParts parts, const std::string& where);

  Index vocabulary() const override { return std::ssize(texts_); }
  std::int32_t end_of_text() const override { return end_of_text_; }
  std::vector<std::int32_t> encode(std::string_view text) const override;
  std::string decode(std::span<const std::int32_t> tokens) const override;
  Index token_bytes(std::int32_t token) const override {
    require_token(token, vocabulary());
    return std::ssize(texts_[static_cast<std::size_t>(token)]);
  }
  std::size_t separable(std::string_view text) const override;

 private:
  using Numbers = std::unordered_map<std::string_view, std::int32_t>;
  void take_vocabulary(const Numbers& numbers, const std::string& where);
  void take_merges(const Numbers& numbers, const std::string& where);
  void encode_word(std::string_view word, WordCache& cache, std::vector<std::int32_t>& tokens) const;

  WordPattern pattern_;
  MergeTable merges_;
  std::vector<std::string> texts_;  ///< the bytes of each token
  std::array<std::int32_t, kBytes> token_of_byte_{};
  std::int32_t end_of_text_ = -1;
  mutable std::mutex mutex_;
  mutable WordCache cache_;  ///< guarded by mutex_
};

Gpt2Tokenizer::Gpt2Tokenizer(TokenizerParts given, const std::string& where)
    : Tokenizer(std::move(given)), merges_(parts()->merges.size()) {
  Numbers numbers;
  for (const std::string& token : parts()->vocabulary) {
    const auto number = static_cast<std::int32_t>(numbers.size());
    const bool is_text = !token.empty() && find_invalid_utf8(token) == std::string_view::npos;
    if (is_text && numbers.emplace(token, number).second) continue;
    throw DataError(fmt::format("{}: token {} of the vocabulary is empty, no UTF-8, or there twice", where, number));
  }
  take_vocabulary(numbers, where);
  take_merges(numbers, where);
}

void Gpt2Tokenizer::take_vocabulary(const Numbers& numbers, const std::string& where) {
  std::unordered_map<char32_t, char> byte_of;
  for (std::size_t byte = 0; byte < kBytes; ++byte) byte_of[spellings()[byte]] = static_cast<char>(byte);
  for (const std::string& token : parts()->vocabulary) texts_.push_back(bytes_of_token(token, byte_of));
  for (std::size_t byte = 0; byte < kBytes; ++byte) {
    const auto found = numbers.find(spelling_of(byte));
    if (found == numbers.end()) {
      throw DataError(
          fmt::format("{}: the vocabulary has no token '{}' for the byte 0x{:02X}; use the vocabulary of "
                      "GPT-2, or one made in the same way",
                      where, spelling_of(byte), byte));
    }
    token_of_byte_[byte] = found->second;
  }
  const auto end = numbers.find(kEndOfText);
  if (end == numbers.end()) return;
  end_of_text_ = end->second;
  texts_[static_cast<std::size_t>(end_of_text_)].clear();
}

void Gpt2Tokenizer::take_merges(const Numbers& numbers, const std::string& where) {
  std::int32_t rank = 0;
  for (const std::string& merge : parts()->merges) {
    const auto fail = [&](const std::string& what) {
      throw DataError(fmt::format("{}: merge {}, '{}': {}", where, rank + 1, merge, what));
    };
    const std::size_t blank = merge.find(' ');
    if (blank == std::string::npos || merge.find(' ', blank + 1) != std::string::npos) fail("must be two tokens");
    const std::string left = merge.substr(0, blank), right = merge.substr(blank + 1);
    const auto number_of = [&](const std::string& token) {
      const auto found = numbers.find(token);
      if (found == numbers.end()) {
        fail(fmt::format("'{}' is not in the vocabulary; use the two files of one model", token));
      }
      return found->second;
    };
    merges_.add(number_of(left), number_of(right), {.rank = rank, .token = number_of(left + right)});
    ++rank;
  }
}

void Gpt2Tokenizer::encode_word(std::string_view word, WordCache& cache, std::vector<std::int32_t>& tokens) const {
  if (const auto known = cache.find(word); !known.empty()) {
    tokens.insert(tokens.end(), known.begin(), known.end());
    return;
  }
  std::vector<std::int32_t> own;
  for (const char byte : word) own.push_back(token_of_byte_[static_cast<unsigned char>(byte)]);
  merge_pairs(merges_, own);
  cache.add(word, own);
  tokens.insert(tokens.end(), own.begin(), own.end());
}

std::vector<std::int32_t> Gpt2Tokenizer::encode(std::string_view text) const {
  require_utf8(text, "the tokenizer 'gpt2'");
  WordCache own;  // where another thread has the common one
  const std::unique_lock lock(mutex_, std::try_to_lock);
  WordCache& cache = lock.owns_lock() ? cache_ : own;
  std::vector<std::int32_t> tokens;
  tokens.reserve(text.size() / 3);
  pattern_.cut(text, [&](std::string_view word) { encode_word(word, cache, tokens); });
  return tokens;
}

std::string Gpt2Tokenizer::decode(std::span<const std::int32_t> tokens) const {
  std::string text;
  for (const std::int32_t token : tokens) {
    require_token(token, vocabulary());
    text += texts_[static_cast<std::size_t>(token)];
  }
  return text;
}

/// No piece of the pattern goes from a visible character to a blank, and what a piece is does not depend on what stands
/// before it: a text can be cut before any blank that follows a visible character of ASCII.
std::size_t Gpt2Tokenizer::separable(std::string_view text) const {
  for (std::size_t at = text.size(); at-- > 1;) {
    const char before = text[at - 1];
    if ((text[at] == ' ' || text[at] == '\n') && before > ' ' && before < 0x7F) return at;
  }
  return 0;
}

/// The tokens of a vocab.json, by their numbers.
std::vector<std::string> vocabulary_in(const nlohmann::json& json) {
  if (!json.is_object() || json.empty()) throw DataError("must be a JSON object of tokens and their numbers");
  std::vector<std::string> tokens(json.size());
  for (const auto& [token, number] : json.items()) {
    const bool fits = number.is_number_unsigned() && number.get<std::uint64_t>() < tokens.size();
    std::string* const place = fits ? &tokens[number.get<std::size_t>()] : nullptr;
    if (place == nullptr || !place->empty()) {
      throw DataError(fmt::format("the token '{}' has the number {}; {} tokens are numbered from 0 to {}, each once",
                                  token, number.dump(), tokens.size(), tokens.size() - 1));
    }
    *place = token;
  }
  return tokens;
}

std::vector<std::string> read_vocabulary(const std::string& path) {
  const auto bytes = read_bytes(path);
  const std::string text(bytes.begin(), bytes.end());
  shallow_json(text, path);
  try {
    return vocabulary_in(nlohmann::json::parse(text));
  } catch (const nlohmann::json::exception& error) {
    throw DataError(fmt::format("{}: is not the vocabulary of a tokenizer in JSON: {}", path, error.what()));
  } catch (const DataError& error) {
    throw DataError(fmt::format("{}: {}", path, error.what()));
  }
}

/// The lines of a merges.txt; the first one may say its version.
std::vector<std::string> read_merges(const std::string& path) {
  LineReader lines(open_bytes(path));
  std::vector<std::string> merges;
  for (std::string line; lines.next(line);) {
    const bool is_version = merges.empty() && line.starts_with("#version");
    if (!is_version) merges.push_back(line);
  }
  return merges;
}

}  // namespace

std::unique_ptr<Tokenizer> make_gpt2_tokenizer(TokenizerParts parts, const std::string& where) {
  return std::make_unique<Gpt2Tokenizer>(std::move(parts), where);
}

std::unique_ptr<Tokenizer> read_gpt2_tokenizer(const std::string& vocabulary_path, const std::string& merges_path) {
  return make_gpt2_tokenizer(
      {.kind = TokenizerKind::gpt2, .vocabulary = read_vocabulary(vocabulary_path), .merges = read_merges(merges_path)},
      fmt::format("{} and {}", vocabulary_path, merges_path));
}

}  // namespace unisono::data
