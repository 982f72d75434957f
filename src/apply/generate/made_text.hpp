#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/data/tokenizer.hpp"

namespace unisono::apply {

/// How many bytes of a text no further token changes: those before an unfinished UTF-8 character, and before U+FFFD at
/// the end, which some tokenizers give for such a character.
std::size_t finished_bytes(std::string_view text);

/// The text that follows a prompt, token by token, up to a stop.
class MadeText {
 public:
  /// \param prompt its tokens \param stops texts that are not empty; they and the tokenizer must outlive the object
  MadeText(const data::Tokenizer& tokenizer, std::vector<std::int32_t> prompt, const std::vector<std::string>& stops);

  /// Adds a token. \return whether the text has ended, because it has one of the stops
  bool add(std::int32_t token);
  /// The text has ended: none of it is held back any more.
  void finish() { ended_ = true; }
  /// The text that became certain since the last call: whole characters that are not the beginning of a stop.
  std::string take();

  const std::string& text() const { return text_; }  ///< without the stop and what follows it
  const std::vector<std::int32_t>& tokens() const { return made_; }

 private:
  void decode(std::int32_t token);
  bool cut_at_stop(std::size_t from);
  std::size_t certain_bytes() const;

  const data::Tokenizer& tokenizer_;
  const std::vector<std::string>& stops_;
  std::vector<std::int32_t> all_, made_;
  std::size_t prompt_bytes_ = 0, taken_ = 0;
  std::string text_;
  bool ended_ = false;
};

}  // namespace unisono::apply
