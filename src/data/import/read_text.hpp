#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "import/rows.hpp"
#include "import/spill.hpp"
#include "import/string_table.hpp"
#include "unisono/data/import.hpp"

namespace unisono::data {

inline constexpr std::int32_t kLineEnd = -1;  ///< between the words of a text that is set aside
inline constexpr std::int32_t kDropped = -1;  ///< the number of a word that is left out

/// A part of a text as it was read: words by the order in which they came first in it.
struct TextPart {
  explicit TextPart(const std::string& beside) : numbers(beside) {}
  StringTable words;
  std::vector<std::int64_t> counts;        ///< beside `words`
  SpillFile numbers;                       ///< int32: a word's number, or kLineEnd
  std::int64_t length = 0;                 ///< words in all
  std::vector<std::uint32_t> places = {};  ///< the number in the whole text, by the number in this part
};

/// A text as it was read: words by the order in which they came first.
struct ReadText {
  StringTable words;
  std::vector<std::int64_t> counts;              ///< beside `words`
  std::vector<std::unique_ptr<TextPart>> parts;  ///< one after the other
  std::int64_t length = 0;                       ///< words in all
};

/// The words that are kept, from the most frequent to the least, those of the same frequency by their bytes.
/// \return their numbers in the text
std::vector<std::uint32_t> choose_words(const StringTable& words, const std::vector<std::int64_t>& counts,
                                        const TextOptions& options);

/// Sorts words anew. \param counts by number in the text
void sort_words(const StringTable& words, const std::vector<std::int64_t>& counts, std::vector<std::uint32_t>& chosen);

/// Calls visit(span of numbers) for each sentence that is not empty: what is left of a line, cut where it is too long.
/// \param number_of by number in the text: the number that a word has now, or kDropped
template <typename Visit>
void for_each_sentence(ReadText& text, const std::vector<std::int32_t>& number_of, std::int64_t longest, Visit visit) {
  std::vector<std::int32_t> sentence;
  const auto end_sentence = [&] {
    if (!sentence.empty()) visit(std::span<const std::int32_t>(sentence));
    sentence.clear();
  };
  for (const auto& part : text.parts) {
    std::vector<std::int32_t> number_in_part;
    for (const std::uint32_t place : part->places) number_in_part.push_back(number_of[place]);
    SpillReader reader(part->numbers);
    for (std::int32_t word = 0; reader.next(word);) {
      const std::int32_t number = word == kLineEnd ? kDropped : number_in_part[static_cast<std::size_t>(word)];
      if (number != kDropped) sentence.push_back(number);
      if (word == kLineEnd || static_cast<std::int64_t>(sentence.size()) == longest) end_sentence();
    }
  }
  end_sentence();
}

/// The files that are named, and all files of the folders that are named and of folders in them, in alphabetical order.
/// \throws DataError where one does not exist, or a folder has no file
std::vector<std::string> list_files(const std::vector<std::string>& paths);

/// Reads texts, each thread its part of them; what is found does not depend on the number of threads. The end of a file
/// ends a sentence.
/// \param beside the output, see SpillFile
/// \throws DataError naming file, line and byte of the first mistake
ReadText read_text(const std::vector<std::string>& files, const TextOptions& options, const std::string& beside,
                   int threads);

/// The words of a UTF-8 text: what stands between blanks and the ends of lines (\n, \r\n or \r). Blanks are those of
/// Unicode, and with them no-break and ideographic spaces. Memory does not depend on the length of lines.
class WordReader {
 public:
  enum class Token { word, line_end, end };

  explicit WordReader(std::unique_ptr<ByteSource> source);

  /// \throws DataError naming line and byte of what is no UTF-8, a zero byte, or a word that is too long to be one
  Token next();
  /// The word that `next` came to; valid until it is called again.
  std::string_view word() const { return word_; }

 private:
  bool fill();
  bool take_line_end();
  /// Bytes of the blank of several bytes that stands `ahead` bytes from `at_` on; 0: none does.
  std::size_t wide_blank_at(std::size_t ahead);
  std::size_t find_end(bool& is_plain);
  void check_word() const;
  [[noreturn]] void fail(std::size_t at, const std::string& what) const;

  std::unique_ptr<ByteSource> source_;
  std::vector<char> buffer_;
  std::size_t at_ = 0, end_ = 0;  ///< of the buffer: what was not read yet
  std::uint64_t before_ = 0;      ///< bytes of the text before the buffer's first
  std::uint64_t line_begin_ = 0;  ///< bytes of the text before the line's first
  std::int64_t line_ = 1;
  bool after_return_ = false;  ///< what was read last is \r
  std::string_view word_;
};

}  // namespace unisono::data
