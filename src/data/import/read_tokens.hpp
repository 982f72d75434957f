#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "import/document_reader.hpp"
#include "import/set_writer.hpp"
#include "import/spill.hpp"
#include "import/text_table.hpp"
#include "unisono/data/import.hpp"
#include "unisono/data/tokenizer.hpp"

// Texts as tokens, and how they are written: what imports of texts share.
namespace unisono::data {

/// Texts as tokens, set aside on the disk; those of characters that are still to be numbered as their code points.
class ReadTokens {
 public:
  /// \param options must outlive it \param beside where the file for what is set aside is made
  ReadTokens(const TokensOptions& options, const std::string& beside);

  /// Reads a file's documents behind those that were read so far.
  void read(const std::string& path);
  /// Reads a table's texts behind those that were read so far. \param label is told each one's class
  void read_table(TextTable& table, const std::function<void(const LineReader& line, const std::string& name)>& label);
  /// Numbers the characters, and adds the token of the end of a text where one is needed and the tokenizer may be
  /// changed. \param several whether a group has several documents
  void complete(bool several);

  const std::vector<std::uint64_t>& ends() const { return ends_; }  ///< where each document ends
  std::uint64_t bytes() const { return bytes_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const SpillFile& numbers() const { return numbers_; }
  std::uint32_t token_of(std::uint32_t number) const {
    return token_of_code_.empty() ? number : token_of_code_[number];
  }

 private:
  bool needs_utf8() const { return tokenizer_ == nullptr || tokenizer_->kind() != TokenizerKind::bytes; }
  void check(const DocumentReader& reader, const DocumentReader::Piece& piece) const;
  void add(const DocumentReader& reader, const DocumentReader::Piece& piece);
  void add(std::string_view text);
  void add_code_points(std::string_view text);

  const TokensOptions& options_;
  std::unique_ptr<Tokenizer> tokenizer_;  ///< null until it is complete: characters of the text
  SpillFile numbers_;                     ///< uint32
  std::uint64_t count_ = 0, bytes_ = 0;
  std::vector<std::uint64_t> ends_;
  std::vector<bool> occurs_;  ///< by code point
  std::vector<std::uint32_t> token_of_code_;
};

/// A part of a document that is in one group.
struct Part {
  Split split = Split::train;
  std::uint64_t begin = 0, end = 0;  ///< of the numbers that were set aside
  bool closes = false;               ///< whether the token of the end of a text follows
  std::int64_t label = -1;           ///< the document's class; −1: it has none
  std::uint64_t size() const { return end - begin + (closes ? 1 : 0); }
};

/// What is written, in the order of the text.
struct TokensPlan {
  std::vector<Part> parts;
  std::array<std::int64_t, 3> tokens{}, documents{};
  bool keeps_documents = false;  ///< whether it is written where documents begin, even where there is one

  void add(const Part& part) {
    if (part.size() == 0) return;
    const auto group = static_cast<std::size_t>(part.split);
    parts.push_back(part);
    tokens[group] += static_cast<std::int64_t>(part.size());
    ++documents[group];
  }
};
/// Documents [first, last) of the text. \param closes whether the token of the end of a text follows each
std::vector<Part> documents_of(const ReadTokens& text, std::size_t first, std::size_t last, bool closes);

/// \throws ConfigError where a part that was asked for has no token
void require_parts(const TokensPlan& plan, const TokensOptions& options);

/// Writes tokens and tokenizer; the caller finishes the set.
void write_tokens(const ReadTokens& text, const TokensPlan& plan, SetWriter& writer);

/// Imports the rows of tables, texts with classes. \pre the options fit each other
TokensSummary import_tables(const std::vector<std::string>& files, const TokensOptions& options,
                            const ImportOutput& output);

/// Makes a set of a table's texts for a trained classifier. Classes are kept if the model knows all of them.
/// \return why they are left out; empty: they are not, or there are none
std::string write_raw_texts(const std::string& path, const Preprocessing& trained, const TokensOptions& options,
                            const ImportOutput& output);

}  // namespace unisono::data
