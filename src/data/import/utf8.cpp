#include "import/utf8.hpp"

#include <wctype.h>

#include <algorithm>
#include <cstdint>

#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

/// Bytes of the character that begins with this one, and bounds of its second byte; length 0: none begins like that.
struct Lead {
  std::size_t length;
  unsigned char low = 0x80, high = 0xBF;
};

Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xC2) return {0};
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0};        // shorter forms exist below
  if (byte == 0xED) return {3, 0x80, 0x9F};  // no surrogates
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90};
  if (byte < 0xF4) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};  // at most U+10FFFF
  return {0};
}

bool is_character(std::string_view bytes, const Lead& lead) {
  if (lead.length == 0 || bytes.size() < lead.length) return false;
  for (std::size_t i = 1; i < lead.length; ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    if (byte < (i == 1 ? lead.low : 0x80) || byte > (i == 1 ? lead.high : 0xBF)) return false;
  }
  return true;
}

/// \pre the first `length` bytes are a character
std::uint32_t decode(std::string_view bytes, std::size_t length) {
  constexpr unsigned char masks[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  std::uint32_t code = static_cast<unsigned char>(bytes[0]) & masks[length];
  for (std::size_t i = 1; i < length; ++i) code = code << 6 | (static_cast<unsigned char>(bytes[i]) & 0x3FU);
  return code;
}

void encode(std::uint32_t code, std::string& text) {
  const auto tail = [&](int shift) { text += static_cast<char>(0x80U | (code >> shift & 0x3FU)); };
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xC0U | code >> 6);
    tail(0);
  } else if (code < 0x10000) {
    text += static_cast<char>(0xE0U | code >> 12);
    tail(6);
    tail(0);
  } else {
    text += static_cast<char>(0xF0U | code >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace

std::size_t find_invalid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const Lead lead = lead_of(static_cast<unsigned char>(text[at]));
    if (!is_character(text.substr(at), lead)) return at;
    at += lead.length;
  }
  return std::string_view::npos;
}

Lowercase::Lowercase() : locale_(newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)) {
  if (locale_ == nullptr)
    throw DataError("--lowercase: this system has no locale C.UTF-8; convert the text to lower case beforehand");
}

Lowercase::~Lowercase() { freelocale(locale_); }

std::string_view Lowercase::operator()(std::string_view text) {
  lowered_.clear();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = lead_of(static_cast<unsigned char>(text[at])).length;
    encode(static_cast<std::uint32_t>(towlower_l(decode(text.substr(at), length), locale_)), lowered_);
    at += length;
  }
  return lowered_;
}

}  // namespace unisono::data
