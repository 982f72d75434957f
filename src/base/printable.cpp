#include "unisono/base/printable.hpp"

#include <fmt/format.h>

#include <iterator>

#include "unisono/base/errors.hpp"

namespace unisono {
namespace {

unsigned byte_at(std::string_view text, std::size_t at) {
  return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U;
}

/// A character in UTF-8.
struct Character {
  std::size_t bytes = 1;  ///< 0: none begins here
  unsigned code = 0;
};

/// RFC 3629: no longer forms than needed, no halves of surrogate pairs, nothing above U+10FFFF.
Character first_character(std::string_view text) {
  const unsigned first = byte_at(text, 0);
  if (first < 0x80U) return {1, first};
  const std::size_t bytes = first >= 0xF0U ? 4 : first >= 0xE0U ? 3 : 2;
  if (first < 0xC2U || first > 0xF4U) return {0, 0};
  unsigned code = first & (0xFFU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte_at(text, i) & 0xC0U) != 0x80U) return {0, 0};
    code = code << 6U | (byte_at(text, i) & 0x3FU);
  }
  const bool is_longer = (bytes == 3 && code < 0x800U) || (bytes == 4 && code < 0x10000U);
  if (is_longer || code > 0x10FFFFU || (code >= 0xD800U && code < 0xE000U)) return {0, 0};
  return {bytes, code};
}

bool is_control(unsigned code) { return code < 0x20U || (code >= 0x7FU && code < 0xA0U); }

/// Marks that let a terminal show characters in another order.
bool reorders(unsigned code) { return (code >= 0x202AU && code <= 0x202EU) || (code >= 0x2066U && code <= 0x2069U); }

std::string escaped(std::string_view text, bool one_line) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const auto [bytes, code] = first_character(text);
    if (bytes == 0) {
      fmt::format_to(std::back_inserter(shown), "\\x{:02x}", byte_at(text, 0));
    } else if (code == '\n' || code == '\t') {
      shown += !one_line ? std::string(1, static_cast<char>(code)) : code == '\n' ? "\\n" : "\\t";
    } else if (is_control(code) || reorders(code)) {
      fmt::format_to(std::back_inserter(shown), "\\u{:04x}", code);
    } else {
      shown += text.substr(0, bytes);
    }
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return shown;
}

}  // namespace

std::string printable(std::string_view text) { return escaped(text, false); }

std::string on_one_line(std::string_view name) { return escaped(name, true); }

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = first_character(text).bytes;
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

void require_utf8_folder(const std::string& path) {
  if (is_utf8(path)) return;
  throw ConfigError(
      fmt::format("{}: the name of this folder is not UTF-8, and could not be stored with the results; rename it, or "
                  "choose another one with --output",
                  path));
}

std::string printable_message(std::string_view text) {
  std::string shown = printable(text);
  for (std::size_t at = shown.find('\n'); at != std::string::npos && at + 1 < shown.size();
       at = shown.find('\n', at + 1)) {
    const std::size_t blanks = shown.find_first_not_of(' ', at + 1);
    if (blanks == std::string::npos || blanks < at + 3) shown.insert(at + 1, "  ");
  }
  return shown;
}

}  // namespace unisono
