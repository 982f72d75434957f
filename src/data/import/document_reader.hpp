#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "import/rows.hpp"
#include "unisono/data/import.hpp"

namespace unisono::data {

/// Reads the documents of a text, piece by piece. Documents without a byte are left out.
class DocumentReader {
 public:
  struct Piece {
    std::string_view text;       ///< valid until the next call
    std::uint64_t place = 0;     ///< bytes of the whole text before it
    bool ends_document = false;  ///< whether its document ends with it
  };

  /// \param options `documents` and `separator` say what divides documents
  /// \param separable how many bytes of a beginning of a document make a piece, as Tokenizer::separable
  DocumentReader(std::unique_ptr<ByteSource> source, const TokensOptions& options,
                 std::function<std::size_t(std::string_view)> separable);
  /// From now on: leaves out the mark U+FEFF, with which some programs begin a file.
  void skip_mark();

  /// False at the end. \throws DataError where the source is damaged
  bool next(Piece& piece);
  const std::string& name() const { return source_->name(); }

 private:
  static constexpr std::size_t kBlock = 1 << 20;  // bytes that are read at a time, and the least of most pieces

  void fill();
  std::size_t find_separator();
  bool take(std::size_t bytes, std::size_t behind, bool ends, Piece& piece);

  std::unique_ptr<ByteSource> source_;
  std::string separator_;  ///< empty: the file is a document
  bool are_lines_;
  std::function<std::size_t(std::string_view)> separable_;
  std::string buffer_;
  std::size_t at_ = 0;        ///< what of the buffer is not given yet begins here
  std::size_t searched_ = 0;  ///< no separator begins before it
  std::uint64_t before_ = 0;  ///< bytes of the text before the buffer's first
  bool is_at_end_ = false;    ///< of the source
  bool is_within_ = false;    ///< whether a piece of the present document was given
};

}  // namespace unisono::data
