#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/base/config.hpp"
#include "unisono/data/preprocessing.hpp"
#include "unisono/tensor/layout.hpp"

// Tokenizers: a text as numbers of tokens, and back. A set of tokens holds the tokenizer that it was imported with, and
// so do the checkpoints of models that were trained on it.

namespace unisono::data {

enum class TokenizerKind { bytes, characters, gpt2, sentencepiece };

inline constexpr Named<TokenizerKind> kTokenizers[] = {
    {TokenizerKind::bytes, "bytes", "a token for each byte"},
    {TokenizerKind::characters, "characters", "a token for each character that occurs in the text"},
    {TokenizerKind::gpt2, "gpt2", "GPT-2's byte-pair encoding"},
    {TokenizerKind::sentencepiece, "sentencepiece", "a SentencePiece model"}};

/// What a tokenizer is made from, as sets and checkpoints store it.
struct TokenizerParts {
  TokenizerKind kind = TokenizerKind::bytes;
  bool end_of_text = false;                  ///< bytes, characters: whether a last token stands for the end of a text
  std::vector<std::string> vocabulary = {};  ///< characters: each in UTF-8; gpt2: tokens, spelled as in vocab.json
  std::vector<std::string> merges = {};      ///< gpt2: the lines of merges.txt, in their order, such as "Ġ t"
  std::string model = {};                    ///< sentencepiece: the bytes of the model file
  bool operator==(const TokenizerParts&) const = default;
};

/// Its functions may be called by several threads at the same time.
class Tokenizer {
 public:
  explicit Tokenizer(TokenizerParts parts) : parts_(std::make_shared<const TokenizerParts>(std::move(parts))) {}
  virtual ~Tokenizer() = default;

  TokenizerKind kind() const { return parts_->kind; }
  std::string_view name() const { return name_of(kind(), kTokenizers); }
  const std::shared_ptr<const TokenizerParts>& parts() const { return parts_; }

  /// How many tokens there are, V. They are numbered from 0 to V − 1.
  virtual Index vocabulary() const = 0;
  /// The tokens of a text; the token of the end of a text is not among them.
  /// \throws DataError naming the place of a character that the vocabulary lacks; of text that is no UTF-8 (bytes:
  /// never)
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
  /// The text of these tokens, as bytes: it may begin or end within a UTF-8 character. The end of a text has no bytes.
  /// \throws DataError for a number that is no token's
  virtual std::string decode(std::span<const std::int32_t> tokens) const = 0;
  /// Length of a token's text in bytes. \throws DataError as decode does
  virtual Index token_bytes(std::int32_t token) const = 0;
  /// The token that stands between texts; −1: there is none.
  virtual std::int32_t end_of_text() const = 0;
  /// How many bytes of a text's beginning can be encoded by themselves: their tokens, followed by those of the rest,
  /// are those of the whole text, whatever follows it. As many as possible; 0 where it is not known.
  virtual std::size_t separable(std::string_view text) const = 0;

 private:
  std::shared_ptr<const TokenizerParts> parts_;
};

/// Tokens 0 to 255 are bytes. \param end_of_text whether there is a token 256, which stands between texts
std::unique_ptr<Tokenizer> byte_tokenizer(bool end_of_text);
/// The characters of a text, in the order of their code points. \param text UTF-8 \param end_of_text whether there is a
/// last token that stands between texts \throws DataError
std::unique_ptr<Tokenizer> character_tokenizer(std::string_view text, bool end_of_text);
/// GPT-2's byte-pair encoding: Radford et al., "Language models are unsupervised multitask learners", 2019.
/// \param vocabulary_path vocab.json, or OpenAI's encoder.json \param merges_path merges.txt, or vocab.bpe
/// \throws DataError, also where this build lacks PCRE2
std::unique_ptr<Tokenizer> read_gpt2_tokenizer(const std::string& vocabulary_path, const std::string& merges_path);
/// \param path a SentencePiece model \throws DataError, also where this build lacks SentencePiece
std::unique_ptr<Tokenizer> read_sentencepiece_tokenizer(const std::string& path);
/// \param where what holds the parts, for messages \throws DataError for parts that fit no tokenizer
std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerParts& parts, const std::string& where);

/// How many bytes each token stands for. \param parts may be null: the result is null, too
TokenBytes token_bytes_of(const std::shared_ptr<const TokenizerParts>& parts);

/// The tokenizer of a set of tokens. \throws DataError where the file holds none
std::unique_ptr<Tokenizer> tokenizer_of_set(const std::string& path);
/// Whether a set of tokens holds its tokenizer. \throws DataError where the file cannot be read
bool has_tokenizer(const std::string& path, bool external_files);
/// What to warn of where a set has none, but the model for which it is meant has one.
std::string unknown_tokens_text(const std::string& set, const std::string& model);

}  // namespace unisono::data
