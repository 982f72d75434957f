#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace unisono::data {

/// A character of a text: its code point, and how many bytes it takes.
struct Character {
  char32_t code = 0;
  std::size_t bytes = 1;
};

/// The character at a byte of a text. \pre the text is UTF-8, and a character begins there
inline Character character_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const auto rest = [&](std::size_t i) { return static_cast<char32_t>(byte(i) & 0x3F); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1};
  if (first < 0xE0) return {(static_cast<char32_t>(first & 0x1F) << 6) | rest(1), 2};
  if (first < 0xF0) return {(static_cast<char32_t>(first & 0x0F) << 12) | (rest(1) << 6) | rest(2), 3};
  return {(static_cast<char32_t>(first & 0x07) << 18) | (rest(1) << 12) | (rest(2) << 6) | rest(3), 4};
}

/// Appends a character in UTF-8.
inline void append_character(std::string& text, char32_t code) {
  const auto rest = [&](int shift) { return static_cast<char>(0x80 | ((code >> shift) & 0x3F)); };
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += {static_cast<char>(0xC0 | (code >> 6)), rest(0)};
  } else if (code < 0x10000) {
    text += {static_cast<char>(0xE0 | (code >> 12)), rest(6), rest(0)};
  } else {
    text += {static_cast<char>(0xF0 | (code >> 18)), rest(12), rest(6), rest(0)};
  }
}

/// The longest beginning of a text that does not end within a character, in bytes. \pre what precedes its end is UTF-8
inline std::size_t whole_characters(std::string_view text) {
  constexpr std::size_t kLongest = 4;
  for (std::size_t back = 1; back <= kLongest && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;  // not the first of a character
    const std::size_t length = byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
    return length > back ? text.size() - back : text.size();
  }
  return text.size();
}

}  // namespace unisono::data
