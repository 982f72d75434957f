// Compiled in place of sentencepiece/ where SentencePiece is not found.
#include "tokenizer/kinds.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {

std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(TokenizerParts, const std::string&) {
  throw DataError(
      "the tokenizer 'sentencepiece' needs SentencePiece, and this unisono was built without it; install "
      "libsentencepiece-dev and build again");
}

}  // namespace unisono::data
