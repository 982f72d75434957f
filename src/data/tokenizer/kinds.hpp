#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "unisono/data/hdf5.hpp"
#include "unisono/data/tokenizer.hpp"

// Tokenizers of each kind from their parts, and how sets hold the parts.

namespace unisono::data {

inline constexpr Index kMostTokens = Index{1} << 24;  ///< of a vocabulary: those of today's models have 2^18

/// \throws DataError where the text is no UTF-8. \param what calls for it: "the tokenizer gpt2"
void require_utf8(std::string_view text, std::string_view what);

/// \throws DataError where the number is none of V tokens
void require_token(std::int32_t token, Index vocabulary);

/// \param where what holds the parts, for messages
std::unique_ptr<Tokenizer> make_gpt2_tokenizer(TokenizerParts parts, const std::string& where);
std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(TokenizerParts parts, const std::string& where);

/// Writes the group `tokenizer` of a set.
void write_tokenizer(hdf5::File& file, const TokenizerParts& parts);
/// The parts of the group `tokenizer`; null: there is none. \throws DataError where they are damaged
std::shared_ptr<const TokenizerParts> read_tokenizer(const hdf5::File& file);

}  // namespace unisono::data
