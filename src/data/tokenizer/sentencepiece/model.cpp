#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include "tokenizer/kinds.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

constexpr std::string_view kBlank = "\xE2\x96\x81";  // U+2581, which stands for a blank

/// The text of a piece by itself: blanks for the marks that stand for them.
std::string text_of(std::string piece) {
  for (std::size_t at = piece.find(kBlank); at != std::string::npos; at = piece.find(kBlank, at + 1))
    piece.replace(at, kBlank.size(), " ");
  return piece;
}

/// Kudo & Richardson, "SentencePiece: a simple and language independent subword tokenizer", EMNLP 2018.
class SentencePieceTokenizer final : public Tokenizer {
 public:
  SentencePieceTokenizer(TokenizerParts given, const std::string& where) : Tokenizer(std::move(given)) {
    const auto status = model_.LoadFromSerializedProto(parts()->model);
    if (!status.ok()) throw DataError(fmt::format("{}: is no SentencePiece model: {}", where, status.ToString()));
    if (vocabulary() < 1 || vocabulary() > kMostTokens) {
      throw DataError(fmt::format("{}: the SentencePiece model has {} tokens", where, vocabulary()));
    }
  }

  Index vocabulary() const override { return model_.GetPieceSize(); }
  std::int32_t end_of_text() const override { return model_.eos_id(); }
  std::size_t separable(std::string_view) const override { return 0; }  // a piece may go beyond any character

  std::vector<std::int32_t> encode(std::string_view text) const override {
    require_utf8(text, "the tokenizer 'sentencepiece'");
    std::vector<int> tokens;
    const auto status = model_.Encode({text.data(), text.size()}, &tokens);
    if (!status.ok()) throw DataError(fmt::format("the text cannot be encoded: {}", status.ToString()));
    return {tokens.begin(), tokens.end()};
  }

  std::string decode(std::span<const std::int32_t> tokens) const override {
    for (const std::int32_t token : tokens) require_token(token, vocabulary());
    std::string text;
    const auto status = model_.Decode(std::vector<int>(tokens.begin(), tokens.end()), &text);
    if (!status.ok()) throw DataError(fmt::format("the tokens cannot be decoded: {}", status.ToString()));
    return text;
  }

  Index token_bytes(std::int32_t token) const override {
    require_token(token, vocabulary());
    if (model_.IsControl(token) || model_.IsUnused(token)) return 0;
    if (model_.IsByte(token)) return 1;
    return std::ssize(text_of(model_.IdToPiece(token)));
  }

 private:
  sentencepiece::SentencePieceProcessor model_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(TokenizerParts parts, const std::string& where) {
  return std::make_unique<SentencePieceTokenizer>(std::move(parts), where);
}

}  // namespace unisono::data
